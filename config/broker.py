"""The broker's wire, told that messages are only nudges.

When Valkey goes away, kombu's Redis transport gives unanswered messages back, and acknowledges
finished ones, over a connection that it has taken apart already; the error that follows ends the
worker (kombu 5.7). A nudge need be neither given back nor acknowledged then: the rows say what is
due, and the next tick says it again.
"""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis


class Channel(redis.Channel):
    """A channel that leaves its messages alone once it is closed."""

    do_restore = False

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:  # noqa: FBT001, FBT002
        """Acknowledge a message, while there is a connection."""
        if not self.closed:
            super().basic_ack(delivery_tag, multiple=multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002
        """Refuse a message, while there is a connection."""
        if not self.closed:
            super().basic_reject(delivery_tag, requeue=requeue)


class Transport(redis.Transport):
    """The Redis transport with channels of that kind."""

    Channel: Any = Channel


def use() -> None:
    """Make `redis://` and `rediss://` mean this transport, in this process."""
    TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), "config.broker:Transport"))
