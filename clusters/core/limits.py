"""Limits on GPUs that a member cluster keeps for its own accounts: what is read, what is wanted.

A resource is what the member calls a kind of GPUs it counts: `gpu:h100`, or `gpu` for all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

ANY_GPU = "gpu"


def resource_of(device: str) -> str:
    """What the member calls GPUs of a device (GRES type)."""
    return f"{ANY_GPU}:{device}" if device else ANY_GPU


@dataclass(frozen=True, slots=True)
class LimitHolder:
    """An account of the member, or a person in one, and the most GPUs by resource it may hold.

    Attributes:
        account: its name there.
        user: the person; "" = the account itself, with all below it.
        parent: the account above it; "" = none.
        gpus: its limits; a resource that is not there is not limited.
        is_default: whether the person's jobs are charged to it unless they say otherwise.
        fixed: why it cannot be written without writing more than the limit; "" = it can.
    """

    account: str
    user: str = ""
    parent: str = ""
    gpus: Mapping[str, int] = field(default_factory=dict)
    is_default: bool = False
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why no limit can be written there, and what an admin can do about it."""

    code: str
    words: str
    fix: str


@dataclass(frozen=True, slots=True)
class LimitsSeen:
    """All limits on GPUs that a cluster keeps.

    `name` is the cluster's own name for itself; `counted` are the resources that it counts and so
    can limit; `obstacle` is why none can be written, None = they can be, as far as was seen.
    """

    name: str
    holders: tuple[LimitHolder, ...]
    counted: frozenset[str]
    obstacle: Obstacle | None = None

    def account(self, name: str) -> LimitHolder | None:
        """The row of an account itself."""
        found = (one for one in self.holders if one.account == name and not one.user)
        return next(found, None)
