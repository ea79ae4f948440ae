"""What a member that runs containers starts on each node: the image and what it is given."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim of the job's namespace, mounted at a path."""

    claim: str
    mount: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of the job's namespace: its files at a path, or else its keys as variables.

    With `variable` only the key of that name is one.
    """

    name: str
    mount: str = ""
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """One container a node.

    Attributes:
        command, args: as in Kubernetes; empty = the image's own.
        rdma: devices by resource (`rdma/hca`: 8), of each node.
        networks: further networks of the pod (Multus), by name.
        shm_mib: size of /dev/shm; 0 = the runtime's own (64 MiB as a rule).
        service_account: "" = the namespace's default, without its token.
        runtime_class: "" = the cluster's own.
    """

    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    host_network: bool = False
    rdma: Mapping[str, int] = field(default_factory=dict)
    networks: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    shm_mib: int = 0
    secrets: tuple[Secret, ...] = ()
    service_account: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class: str = ""

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Container":
        """The stored form read back.

        Raises:
            KeyError, TypeError: not a stored container.
        """
        lists = ("command", "args", "networks", "image_pull_secrets")
        return cls(
            **{
                **stored,
                **{name: tuple(stored[name]) for name in lists},
                "volumes": tuple(Volume(**one) for one in stored["volumes"]),
                "secrets": tuple(Secret(**one) for one in stored["secrets"]),
            }
        )
