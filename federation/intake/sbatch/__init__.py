"""sbatch scripts as they are: `read_sbatch` reads one, `job_of` makes the job that it asks for."""

from federation.intake.sbatch.place import tenant_of_account
from federation.intake.sbatch.read import Script, job_of, read_sbatch
from federation.intake.sbatch.table import OPTIONS

__all__ = [
    "OPTIONS",
    "Script",
    "job_of",
    "read_sbatch",
    "tenant_of_account",
]
