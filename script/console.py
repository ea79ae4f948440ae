"""What a script says to the person at the terminal: progress with elapsed time, and plain failures."""

import errno
import sys
import time
from collections.abc import Callable


class SetupError(Exception):
    """Something is missing or went wrong outside Muster's code.

    The message is shown as it is, without a traceback: it says what happened and what to do.
    """


class Console:
    """Prints progress lines that start with the seconds since the console was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def elapsed_s(self) -> float:
        """Return the seconds since the console was made."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Print one progress line."""
        print(f"[{self.elapsed_s():6.1f}s] {text}", flush=True)

    def plain(self, text: str = "") -> None:
        """Print text as it is, for what people copy (a URL, a login) and for tables."""
        print(text, flush=True)


def exit_code_of(main: Callable[[], int]) -> int:
    """Run `main` and return its exit code; a SetupError or a full disk becomes words and code 1."""
    try:
        return main()
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"\nThe disk is full ({error.filename or error}). Free some space, then try again.",
              file=sys.stderr, flush=True)  # fmt: skip
        return 1
    except KeyboardInterrupt:
        return 130
