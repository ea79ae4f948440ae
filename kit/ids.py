"""Identifiers: UUIDv7 outside, uuid5 for facts that may be written twice, fences for backends."""

import base64
from uuid import UUID, uuid5

from uuid6 import uuid7 as _uuid7

MUSTER_NAMESPACE = UUID("6d757374-6572-5000-8000-000000000001")
FENCE_PREFIX = "mst-"


def new_id() -> UUID:
    """A time-ordered UUIDv7 (RFC 9562)."""
    return UUID(int=_uuid7().int)


def fact_id(*parts: object) -> UUID:
    """The uuid5 of a source fact: the same fact gives the same id, so writing twice is once."""
    return uuid5(MUSTER_NAMESPACE, "\x1f".join(str(part) for part in parts))


def fence(job_id: UUID, attempt: int) -> str:
    """The backend's name of one attempt: `mst-` + base32 of the last 60 bits + `-a<n>`.

    The last bits of a UUIDv7 are its random ones; 60 bits are 12 base32 letters, lower case. Legal
    as a Slurm job name and as a Kubernetes object name; at most 40 characters.
    """
    tail = (job_id.int & ((1 << 60) - 1)) << 4
    letters = base64.b32encode(tail.to_bytes(8, "big")).decode().rstrip("=").lower()[:12]
    return f"{FENCE_PREFIX}{letters}-a{attempt}"


def attempt_id(job_id: UUID, number: int) -> UUID:
    """The id of an attempt. It follows from its job: a database restored to an older point, which
    lost the row, makes the same one again, and so the same facts in the ledger.
    """
    return fact_id("attempt", job_id, number)


def read_fence(name: str) -> tuple[int, int] | None:
    """The last 60 bits of the job's id and the attempt's number; None for what is no fence."""
    if not is_fence(name):
        return None
    letters, _, number = name.removeprefix(FENCE_PREFIX).rpartition("-a")
    try:
        tail = base64.b32decode(letters.upper() + "A===")
    except ValueError:
        return None
    return int.from_bytes(tail, "big") >> 4, int(number)


def is_fence(name: str) -> bool:
    """Whether a backend's object name has the shape of a fence of ours."""
    head, _, number = name.rpartition("-a")
    return head.startswith(FENCE_PREFIX) and len(head) == 16 and number.isdigit()
