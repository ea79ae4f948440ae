"""The demo's world: an organisation, its people, and three simulated clusters. Data only.

GPU facts are from the makers' data sheets (dense bf16). Node shapes and trees are made up, so that
the three clusters differ: Aurora has the deepest tree, Borealis is the largest, Cirrus has half
the GPUs in a node and no spine, and is Volcano's where the others are Slurm's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

ORGANISATION = "acme"
PRICES_SINCE = datetime(2020, 1, 1, tzinfo=UTC)
CURRENCY = "USD"
SPEED = 60.0  # a minute of a job's time passes in a second
FIRST_UID = 3001
FOREIGN_USERS = ("nadia", "otto")
SCOPES = ("admin", "read", "submit")


@dataclass(frozen=True)
class DemoFlavor:
    """A GPU model and its prices per GPU-hour in nano-units."""

    name: str
    vendor: str
    memory_gb: int
    bf16_tflops: int
    guaranteed_nano: int
    spot_nano: int


@dataclass(frozen=True)
class DemoCluster:
    """A simulated cluster: nodes, tiers (name to nodes in a block, widest last) and stores.

    `foreign_percent` of its nodes are kept busy by other people's jobs (Slurm only).
    """

    name: str
    title: str
    flavor: str
    device: str
    nodes: int
    gpus_per_node: int
    cpus: int
    memory_mb: int
    tiers: Mapping[str, int]
    stores: tuple[str, ...]
    foreign_percent: int = 0
    backend: str = "slurm"

    @property
    def device_there(self) -> str:
        """What the cluster calls its GPUs."""
        return f"nvidia.com/gpu:{self.device}" if self.backend == "volcano" else self.device

    def options(self) -> dict[str, str]:
        """The options that an admin sets for it."""
        if self.backend == "volcano":
            return {"namespaces": ",".join(NAMESPACES)}
        return {"tiers": ",".join(reversed(list(self.tiers)))}


@dataclass(frozen=True)
class DemoPerson:
    """A person: a role in one tenant or the admin, and whether they have UNIX accounts."""

    username: str
    first_name: str
    role: str
    tenant: str
    charges: tuple[str, ...] = ()
    is_admin: bool = False


@dataclass(frozen=True)
class DemoTenant:
    """A tenant and, by flavor, (GPUs guaranteed, most as spot or None)."""

    path: str
    title: str
    quotas: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)


FLAVORS = (
    DemoFlavor("h100-sxm-80", "nvidia", 80, 989, 3_200_000_000, 1_600_000_000),
    DemoFlavor("a100-sxm-80", "nvidia", 80, 312, 1_800_000_000, 900_000_000),
    DemoFlavor("l40s-48", "nvidia", 48, 362, 900_000_000, 450_000_000),
)
CLUSTERS = (
    DemoCluster(
        "aurora", "Aurora, H100", "h100-sxm-80", "h100",
        nodes=16, gpus_per_node=8, cpus=128, memory_mb=1_000_000,
        tiers={"domain": 2, "leaf": 4, "spine": 16}, stores=("lustre-a", "dataset:webtext"),
    ),
    DemoCluster(
        "borealis", "Borealis, A100", "a100-sxm-80", "a100",
        nodes=32, gpus_per_node=8, cpus=128, memory_mb=1_000_000,
        tiers={"leaf": 4, "spine": 16}, stores=("lustre-a", "dataset:webtext"),
        foreign_percent=12,
    ),
    DemoCluster(
        "cirrus", "Cirrus, L40S", "l40s-48", "l40s",
        nodes=12, gpus_per_node=4, cpus=64, memory_mb=500_000,
        tiers={"leaf": 4}, stores=("nfs-c",), backend="volcano",
    ),
)  # fmt: skip
TEAMS = ("vision", "language", "robotics")
TENANTS = (
    DemoTenant(
        "acme",
        "Acme Research",
        {"h100-sxm-80": (128, None), "a100-sxm-80": (256, None), "l40s-48": (48, None)},
    ),
    DemoTenant(
        "acme/vision",
        "Vision",
        {"h100-sxm-80": (64, None), "a100-sxm-80": (64, None), "l40s-48": (16, None)},
    ),
    DemoTenant(
        "acme/language",
        "Language",
        {"h100-sxm-80": (48, None), "a100-sxm-80": (128, None), "l40s-48": (8, 16)},
    ),
    DemoTenant(
        "acme/robotics",
        "Robotics",
        {"h100-sxm-80": (16, 64), "a100-sxm-80": (64, 128), "l40s-48": (24, None)},
    ),
    DemoTenant("acme/vision/pretrain", "Pretraining"),
    DemoTenant("acme/vision/video", "Video models"),
    DemoTenant("acme/language/chat", "Chat"),
    DemoTenant("acme/robotics/grasp", "Grasping"),
)
ADMIN = DemoPerson("ada", "Ada", "", "", charges=TEAMS, is_admin=True)
PEOPLE = (
    ADMIN,
    DemoPerson("olga", "Olga", "owner", "acme"),
    DemoPerson("mia", "Mia", "submitter", "acme/vision", charges=("vision",)),
    DemoPerson("noor", "Noor", "submitter", "acme/language", charges=("language",)),
    DemoPerson("omar", "Omar", "submitter", "acme/robotics", charges=("robotics",)),
    DemoPerson("vera", "Vera", "viewer", "acme"),
)
NAMESPACES = tuple(person.username for person in PEOPLE if person.charges)  # as their accounts


def simulator_config(state: str, first_port: int, keys: Mapping[str, bytes]) -> dict[str, Any]:
    """The simulator's configuration (JSON): the clusters' shapes, people, keys and ports.

    `keys` by cluster: what signs tokens of Slurm, the token itself of Volcano.
    """
    users = [
        {"name": person.username, "uid": FIRST_UID + number, "accounts": list(person.charges)}
        for number, person in enumerate(PEOPLE)
        if person.charges
    ]
    users += [
        {"name": name, "uid": FIRST_UID + 100 + number, "accounts": ["physics"]}
        for number, name in enumerate(FOREIGN_USERS)
    ]
    return {
        "clusters": [
            _volcano(cluster, number, state, first_port + number, keys[cluster.name])
            if cluster.backend == "volcano"
            else _slurm(cluster, number, state, first_port + number, users)
            for number, cluster in enumerate(CLUSTERS)
        ]
    }


def _common(cluster: DemoCluster, number: int, state: str, port: int) -> dict[str, Any]:
    return {
        "name": cluster.name,
        "state_file": f"{state}/{cluster.name}.state.json",
        "port": port,
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "gpu_type": cluster.device,
        "cpus": cluster.cpus,
        "memory_mb": cluster.memory_mb,
        "tiers": [{"name": name, "nodes": nodes} for name, nodes in cluster.tiers.items()],
        "speed": SPEED,
        "seed": number + 1,
    }


def _volcano(
    cluster: DemoCluster, number: int, state: str, port: int, token: bytes
) -> dict[str, Any]:
    return {
        **_common(cluster, number, state, port),
        "kind": "volcano",
        "volcano": {
            "tokens": [{"token": token.decode(), "user": "muster"}],
            "namespaces": list(NAMESPACES),
        },
    }


def _slurm(
    cluster: DemoCluster, number: int, state: str, port: int, users: list[dict[str, Any]]
) -> dict[str, Any]:
    config: dict[str, Any] = {
        **_common(cluster, number, state, port),
        "jwt_key_file": f"{state}/{cluster.name}.key",
        "accounts": [*TEAMS, "physics"],
        "users": users,
    }
    if cluster.foreign_percent:
        config["foreign"] = {"percent": cluster.foreign_percent, "users": list(FOREIGN_USERS)}
    return config
