"""As `trust`, where one of the two clusters is Volcano's: nothing twice, nothing lost, over both."""

from script.soaks._stateful import Machine, soak


def _machine(_: int) -> Machine:
    from tests.scenario.machine import TwoWorldsMachine

    return TwoWorldsMachine


if __name__ == "__main__":
    soak("worlds", __doc__, _machine)
