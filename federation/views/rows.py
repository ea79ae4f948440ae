"""Jobs as rows of lists: one place that knows what a row needs, so that its queries stay few."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from federation.models import Attempt, Job
from federation.selectors.jobs import last_attempts
from federation.views.words import Why, why


@dataclass(frozen=True, slots=True)
class Gang:
    """What a job holds or asks: `nodes` x `gpus_per_node` of one of `flavors`."""

    nodes: int
    gpus_per_node: int
    flavors: tuple[str, ...]

    @property
    def gpus(self) -> int:
        """All of its GPUs."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Row:
    """A job in a list."""

    job: Job
    attempt: Attempt | None
    gang: Gang
    why: Why
    position: int | None = None

    @property
    def service_class(self) -> str:
        """The class it runs as, or the one it asked for."""
        return self.job.class_now or self.job.wanted_class


def gang_of(job: Job, attempt: Attempt | None) -> Gang:
    """What the job holds now (an open attempt), else what it asks first."""
    if attempt is not None and attempt.state != Attempt.State.ENDED:
        return Gang(len(attempt.nodes), attempt.gpus_per_node, (attempt.flavor_id,))
    options: Sequence[Mapping[str, Any]] = job.options
    first = options[0]
    flavors = tuple(option["flavor"] for option in options)
    return Gang(first["nodes"], first["gpus_per_node"], flavors)


def rows(jobs: Sequence[Job], positions: Mapping[int, int] | None = None) -> list[Row]:
    """The jobs as rows, in order. One query."""
    attempts = last_attempts([job.pk for job in jobs])
    places = positions or {}
    return [
        Row(
            job=job,
            attempt=(attempt := attempts.get(job.pk)),
            gang=gang_of(job, attempt),
            why=why(job, attempt),
            position=places.get(job.pk),
        )
        for job in jobs
    ]
