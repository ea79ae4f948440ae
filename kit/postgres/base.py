"""The connection class that Django looks for in a database backend."""

import select

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Asks the server only when there is doubt whether a kept connection still stands.

    Django's check is a query before the first one of each request. A server that restarts or ends
    a session closes the socket, which then has something to read; an idle one has not.
    """

    def is_usable(self) -> bool:
        """Whether queries can be sent."""
        held = self.connection
        if held is None or held.closed or self.errors_occurred:
            return bool(super().is_usable())
        quiet = select.poll()
        quiet.register(held.fileno(), select.POLLIN)
        return not quiet.poll(0) or bool(super().is_usable())
