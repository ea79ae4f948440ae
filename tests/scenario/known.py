"""A run as the scenario knows of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """A run as it was last heard of: the time it began and ended (0: it lasts), and its GPUs."""

    fence: str
    start_ms: int
    end_ms: int
    gpus: int
