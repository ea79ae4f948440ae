"""What an option of sbatch is: how it is written, and what becomes of it."""

from dataclasses import dataclass
from enum import StrEnum

from federation.intake.fate import Fate


class Takes(StrEnum):
    """Whether an option has a value. A value that is optional stands behind `=` only."""

    NOTHING = "none"
    VALUE = "needed"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of sbatch.

    Attributes:
        name: the long name without dashes.
        short: the letter, or "".
        takes: whether it has a value.
        fate: what becomes of it.
        words: which field it is, how it is carried, or why it is not taken and what helps.
        variable: the environment variable that carries it, as sbatch sets it for srun; or "".
        same_as: the option that this is another name of; or "".
        versions: the versions of Slurm that know it, in words; "" = all from 22.05 to 25.11.
    """

    name: str
    short: str
    takes: Takes
    fate: Fate
    words: str
    variable: str = ""
    same_as: str = ""
    versions: str = ""

    @property
    def long(self) -> str:
        """The long name as it is written."""
        return f"--{self.name}"
