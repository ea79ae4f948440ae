"""What a job says of its checkpoints where its nodes cannot reach Muster.

It sets its own comment on the cluster to `muster-checkpoint=<step>`, alone or behind the mark that
makes the comment Muster's (`<mark>:<fence> muster-checkpoint=<step>`).
"""

import re

MOST_STEP = 2**53  # the largest whole number that every JSON reader keeps exactly
_NOTE = re.compile(r"(?:^|\s+)muster-checkpoint=(\S*)\s*$")
_STEP = re.compile(r"[0-9]{1,16}")


def has_note(comment: str) -> bool:
    """Whether the comment ends in a note, be its step readable or not."""
    return _NOTE.search(comment) is not None


def without_note(comment: str) -> str:
    """The comment without its note."""
    return _NOTE.sub("", comment)


def noted_step(comment: str) -> int | None:
    """The step that is noted; None when there is no note, or no step from 0 to 2^53 in it."""
    found = _NOTE.search(comment)
    if found is None or not _STEP.fullmatch(found[1]):
        return None
    step = int(found[1])
    return step if step <= MOST_STEP else None
