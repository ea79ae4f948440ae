"""Ready configurations: three clusters of different GPU models and shapes, for demo and tests."""

from pathlib import Path
from typing import Any

from simulator.config import Cluster, Config, Foreign, Partition, Tier, User

USERS = [
    User("mia", 3001, ["vision", "language"]),
    User("noor", 3002, ["language"]),
    User("omar", 3003, ["robotics"]),
    User("nadia", 3101, ["physics"]),
    User("otto", 3102, ["physics"]),
]
ACCOUNTS = ["vision", "language", "robotics", "physics"]


def cluster_config(name: str, *, jwt_key_file: str, **changes: Any) -> Cluster:
    """A cluster of 16 nodes with 8 H100 each in leaves of 4; `changes` are fields of `Cluster`."""
    settings: dict[str, Any] = {
        "tiers": [Tier("leaf", 4)],
        "accounts": list(ACCOUNTS),
        "users": list(USERS),
        **changes,
    }
    return Cluster(name=name, jwt_key_file=jwt_key_file, **settings)


def example_config(directory: Path, *, first_port: int = 6830, speed: float = 60.0) -> Config:
    """Aurora (H100, two levels), borealis (A100, three levels) and cirrus (L40S, flat).

    Keys and state are expected in `directory` as `<name>.key` and `<name>.state.json`; nothing is
    written here. Ports are `first_port` and the two after it.
    """

    def common(number: int, name: str) -> dict[str, Any]:
        return {
            "jwt_key_file": str(directory / f"{name}.key"),
            "state_file": str(directory / f"{name}.state.json"),
            "port": first_port + number,
            "speed": speed,
            "control": True,
            "seed": number + 1,
        }

    return Config(
        [
            cluster_config(
                "aurora",
                nodes=16,
                gpu_type="h100",
                tiers=[Tier("leaf", 4), Tier("spine", 8, digits=1)],
                foreign=Foreign(percent=20, nodes=[1, 2]),
                **common(0, "aurora"),
            ),
            cluster_config(
                "borealis",
                nodes=32,
                gpu_type="a100",
                tiers=[
                    Tier("leaf", 4),
                    Tier("spine", 16, digits=1),
                    Tier("core", 32, digits=1),
                ],
                foreign=Foreign(percent=25, nodes=[1, 4]),
                **common(1, "borealis"),
            ),
            cluster_config(
                "cirrus",
                nodes=12,
                gpus_per_node=4,
                gpu_type="l40s",
                cpus=64,
                memory_mb=500_000,
                tiers=[Tier("leaf", 4)],
                partitions=[Partition("batch", default=True), Partition("short", max_minutes=240)],
                **common(2, "cirrus"),
            ),
        ]
    )
