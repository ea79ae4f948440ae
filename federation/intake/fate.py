"""What becomes of one thing that a foreign file says."""

from enum import StrEnum


class Fate(StrEnum):
    """What becomes of an option or field."""

    MAPPED = "mapped"  # a field of the job
    CARRIED = "carried"  # reaches the member in another way, or says nothing about the job
    DROPPED = "dropped"  # the job runs without it, and the answer says so
    LATER = "not yet"  # refused until the feature is there
    REFUSED = "refused"
