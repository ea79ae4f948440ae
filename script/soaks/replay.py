"""Runs the steps that a failed scenario printed, from a FILE, with every check.

See `tests.scenario.replay`. The line `state = ...` that was printed first says which machine's.
"""

import sys
from pathlib import Path

from script.benchmarks import scratch_database


def main() -> None:
    """Replay the file that is named."""
    with scratch_database():
        from tests.quotas.tree.machine import LiveTreeMachine, VirtualTreeMachine
        from tests.scenario.machine import ScenarioMachine, TwoWorldsMachine
        from tests.scenario.replay import replay

        text = Path(sys.argv[1]).read_text()
        kinds = (LiveTreeMachine, VirtualTreeMachine, TwoWorldsMachine)
        named = [kind for kind in kinds if kind.__name__ in text]
        steps = replay(text, (*named, ScenarioMachine)[0])
        print(f"{steps} steps, and all is where it belongs")


if __name__ == "__main__":
    main()
