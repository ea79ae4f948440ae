"""What the cluster's clock shows. The engine's own time is steady; only what is shown is off.

An instant is shown with the offset in force then, so that a jump leaves older timestamps as they
were written, as a stepped system clock does.
"""

from simulator.engine.model import World

MOST_MS = 366 * 86_400_000


def offset_at(world: World, ms: int) -> int:
    """How far the cluster's clock was ahead at an instant of the engine's time."""
    past = [offset for since, offset in world.shifts if since <= ms]
    return past[-1] if past else 0


def shown_ms(world: World, ms: int) -> int:
    """What the cluster's clock showed, or will show, at an instant; 0 means never and stays 0."""
    return ms + offset_at(world, ms) if ms and world.shifts else ms


def seconds(world: World, ms: int) -> int:
    """Epoch seconds as the cluster writes them: its own clock's, whole, rounded down."""
    return shown_ms(world, ms) // 1000


def steady_ms(world: World, shown: int) -> int:
    """The engine's instant of a time to come that somebody named by the cluster's clock."""
    return shown - offset_at(world, world.now_ms) if shown else 0


def set_skew(world: World, offset_ms: int) -> None:
    """Let the clock be off by so much, and have been so always. ValueError for over a year."""
    _check(offset_ms)
    world.shifts = [(0, offset_ms)] if offset_ms else []
    _everything_changed(world)


def jump(world: World, by_ms: int) -> None:
    """Step the clock, forwards or backwards, from now on. ValueError if off by over a year."""
    offset = offset_at(world, world.now_ms) + by_ms
    _check(offset)
    world.shifts.append((world.now_ms, offset))
    _everything_changed(world)


def _check(offset_ms: int) -> None:
    if abs(offset_ms) > MOST_MS:
        raise ValueError(f"a clock is off by at most {MOST_MS} ms")


def _everything_changed(world: World) -> None:
    world.jobs_changed_ms = world.nodes_changed_ms = world.now_ms
