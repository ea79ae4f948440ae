"""Time: how it passes, and what the cluster's clock makes of it."""

from simulator.deeds.common import Deed, Json
from simulator.engine.clocks import jump, set_skew, shown_ms
from simulator.runtime import Running
from simulator.slurm.cache import RowCache


def advance(cluster: Running, *, ms: int) -> Json:
    """Let a manual clock go on by `ms`."""
    return {"now_ms": cluster.advance_ms(ms)}


def skew(cluster: Running, *, ms: int) -> Json:
    """All timestamps are off by `ms` (negative: behind), those of the past too. Undoes jumps."""
    cluster.now_ms()
    set_skew(cluster.world, ms)
    return _shown(cluster)


def jump_by(cluster: Running, *, ms: int) -> Json:
    """The clock jumps by `ms`, forwards or backwards; what has been written stays as it is."""
    cluster.now_ms()
    jump(cluster.world, ms)
    return _shown(cluster)


def _shown(cluster: Running) -> Json:
    cluster.rows = RowCache()
    now_ms = cluster.now_ms()
    return {"now_ms": now_ms, "shown_ms": shown_ms(cluster.world, now_ms)}


DEEDS: dict[str, Deed] = {
    "clock/advance": advance,
    "clock/skew": skew,
    "clock/jump": jump_by,
}
