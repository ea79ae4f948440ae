"""Whether a cluster that lost attempts looks rebuilt with an empty state, and in which words.

What can be seen of a Slurm cluster from outside: it hands out job numbers upwards and starts at its
first again when its state is wiped; and a cluster that merely lost a job still knows the others.
Pure. It explains and decides nothing: what is lost stays lost until a person acts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

REBUILT, LEFT = " looks rebuilt with an empty state", " left while this ran there"  # explanations


@dataclass(frozen=True, slots=True)
class Numbered:
    """An attempt that the cluster accepted: when it was bound, its number there (0 = unknown)."""

    bound_ms: int
    number: int


def number_of(backend_id: str) -> int:
    """The backend's number of an object, 0 when it is no number."""
    return int(backend_id) if backend_id.isascii() and backend_id.isdigit() else 0


def evidence(lost: Sequence[Numbered], known: Sequence[Numbered]) -> str:
    """Why the cluster looks rebuilt, "" = it does not. `known` are the attempts it still knows.

    One lost attempt alone proves nothing; two and none left, or a later attempt with a lower
    number, do.
    """
    highest = max((one.number for one in lost), default=0)
    first_ms = min((one.bound_ms for one in lost), default=0)
    older = [one for one in known if one.bound_ms <= first_ms]
    if not lost or older:
        return ""
    later = [one.number for one in known if 0 < one.number < highest]
    if later:
        return f"its job numbers began anew ({min(later)} came after {highest})"
    if len(lost) > 1 and not known:
        return f"it knows none of the {len(lost)} attempts that it had, all at once"
    return ""


def explanation(cluster: str, why: str) -> str:
    """What the owner of a lost attempt reads."""
    return (
        f"{cluster}{REBUILT}: {why}. What ran there most likely ended "
        "with it, but nobody can see that. It is not started again by itself."
    )


def forgotten(cluster: str) -> str:
    """What the owner reads of an attempt that was given up because its cluster left."""
    return (
        f"{cluster}{LEFT}, and nobody looks any more; it may have gone on. It is billed up to the "
        "moment it was last seen. Release the job to run it again, or cancel it."
    )
