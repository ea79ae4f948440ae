"""The states of a job and the changes that are allowed between them."""

from enum import StrEnum


class JobState(StrEnum):
    """As in the API. `stopping` leads to `queued` again or to an end; `unknown` is silence."""

    QUEUED = "queued"
    HELD = "held"
    DISPATCHING = "dispatching"
    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in FINAL

    @property
    def is_bound(self) -> bool:
        """Whether an attempt of the job may hold GPUs."""
        return self in BOUND


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
BOUND = frozenset(
    {
        JobState.DISPATCHING,
        JobState.PENDING,
        JobState.RUNNING,
        JobState.STOPPING,
        JobState.UNKNOWN,
    }
)
