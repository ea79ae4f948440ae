"""Every option of sbatch, from Slurm 22.05 to 25.11: the one table, also of the reference page.

Names, letters and values follow the tables of options in Slurm's own sources of those releases
(`src/common/slurm_opt.c`). Pyxis, a plugin that adds options of its own, is listed beside them.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from federation.intake.sbatch.option import Option
from federation.intake.sbatch.refused import LATER, PYXIS, REFUSED
from federation.intake.sbatch.taken import CARRIED, DROPPED, MAPPED

OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option for option in chain(MAPPED, CARRIED, DROPPED, LATER, REFUSED, PYXIS)
}
SHORT: Final[Mapping[str, Option]] = {o.short: o for o in OPTIONS.values() if o.short}
