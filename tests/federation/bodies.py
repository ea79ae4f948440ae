"""Bodies of jobs for tests."""

from typing import Any


def small(**changes: Any) -> dict[str, Any]:
    """The least that a job needs; `changes` replace or add top-level fields."""
    return {
        "tenant": "acme/vision",
        "flavors": ["h100-sxm-80"],
        "gang": {"nodes": 4, "gpus_per_node": 8},
        "time_limit": 3600,
        "run": {"script": "#!/bin/bash\nsrun true"},
        **changes,
    }


def whole(**changes: Any) -> dict[str, Any]:
    """Every field that works, as the API's reference shows it."""
    return {
        "name": "llm-train",
        "tenant": "acme/vision/pretrain",
        "class": "auto",
        "priority": "normal",
        "flavors": ["h100-sxm-80", "a100-sxm-80"],
        "prefer": "order",
        "gang": {
            "nodes": 16,
            "gpus_per_node": 8,
            "min_nodes": 16,
            "cpus_per_gpu": 8,
            "memory_per_node": "900Gi",
            "exclusive": True,
            "start_timeout": 300,
            "max_restarts": 3,
        },
        "topology": {"required": "spine", "preferred": "leaf"},
        "parallelism": {
            "tp": 8,
            "pp": 4,
            "dp": 4,
            "cp": 1,
            "ep": 1,
            "global_batch": 1024,
            "micro_batch": 1,
            "zero": 1,
            "precision": "bf16",
            "recompute": "selective",
            "sequence_parallel": True,
            "model": {
                "parameters": 70_000_000_000,
                "layers": 80,
                "hidden": 8192,
                "ffn_hidden": 28672,
                "heads": 64,
                "kv_heads": 8,
                "vocab": 128256,
                "sequence": 4096,
            },
        },
        "time_limit": "72:00:00",
        "checkpoint": {"signal": "USR1", "grace": 120, "interval": 1800, "store": "lustre-a"},
        "run": {
            "script": "#!/bin/bash\nsrun torchrun train.py",
            "workdir": "/home/mia/run7",
            "output": "run7-%j.out",
            "image": "registry.example/team/trainer:24.11",
            "command": ["torchrun", "train.py"],
            "args": ["--steps", "5", "--steps", "5"],
            "host_network": True,
            "rdma": {"rdma/hca": 8},
            "networks": ["fabric/rail-0"],
            "volumes": [{"claim": "webtext", "mount": "/data", "read_only": True}],
            "shm": "64Gi",
            "secrets": [
                {"name": "hub", "env": True},
                {"name": "tracker", "env": "WANDB_API_KEY"},
                {"name": "ssh", "mount": "/etc/keys"},
            ],
            "service_account": "trainer",
            "image_pull_secrets": ["registry"],
            "runtime_class": "nvidia",
        },
        "environment": {"NCCL_DEBUG": "WARN"},
        "requires": ["dataset:webtext"],
        "labels": {"experiment": "a17"},
        "clusters": {"only": [], "avoid": []},
        "not_before": None,
        "deadline": None,
        "depends_on": [],
        "array": None,
        **changes,
    }


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value
