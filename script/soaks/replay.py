"""Runs the steps that a failed scenario printed, from a FILE, with every check.

See `tests.scenario.replay`.
"""

import sys
from pathlib import Path

from script.benchmarks import scratch_database


def main() -> None:
    """Replay the file that is named."""
    with scratch_database():
        from tests.scenario.replay import replay

        steps = replay(Path(sys.argv[1]).read_text())
        print(f"{steps} steps, and all is where it belongs")


if __name__ == "__main__":
    main()
