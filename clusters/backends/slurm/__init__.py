"""Slurm over slurmrestd. `connect` is all that others use.

Options of a cluster (strings): `api_version`, `timeout_s`, `connect_timeout_s`, `token_life_s`,
`tiers`, `tier.<name>`, `topology_conf`, `environment.<NAME>`, `workdir`, `mark`, `accounting`
(`off`), `accounting_days`, `accounting_comments` (`no`), `cluster_name`.
"""

from clusters.backends.slurm.backend import SlurmBackend
from clusters.backends.slurm.client import SlurmClient
from clusters.core.backend import Connection


def connect(connection: Connection) -> SlurmBackend:
    """The backend of one Slurm cluster; nothing is sent until it is used."""
    return SlurmBackend(SlurmClient(connection))
