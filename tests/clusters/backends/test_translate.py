from dataclasses import replace

import pytest

from clusters.backends.slurm.translate import environment, guard_shell, submit_body
from clusters.backends.slurm.versions import DIALECTS, V38
from clusters.core.gang import Gang
from clusters.core.resources import GangShape, NodeShape

GANG = Gang(
    fence="mst-7f3a9c-a1",
    title="Größe\n$(reboot)",
    account="mia",
    charge="vision",
    queue="h100",
    service_class="guaranteed",
    shape=GangShape(4, NodeShape(8, 64, 921_600), exclusive=True),
    device="h100",
    nodes=("n000", "n001", "n002", "n007"),
    time_limit_s=3601,
    script="#!/bin/bash\nsrun torchrun train.py\n",
    workdir="/home/mia/run7",
    output="run7-%j.out",
    error="",
    environment={"NCCL_DEBUG": "WARN"},
    signal="USR1",
    grace_s=120,
)


def test_v38_speaks_sbatch() -> None:
    body = submit_body(GANG, V38, {}, "alpha")
    variables = body["job"].pop("environment")
    assert variables["MUSTER_JOB_NAME"] == GANG.title
    assert body == {
        "script": "#!/bin/bash\ntrap : USR1  # muster: the checkpoint signal\n"
        "srun torchrun train.py\n",
        "job": {
            "name": "mst-7f3a9c-a1",
            "comment": "muster:mst-7f3a9c-a1",
            "hold": True,
            "dependency": "singleton",
            "requeue": False,
            "no_requeue": True,
            "account": "vision",
            "partition": "h100",
            "qos": "guaranteed",
            "nodes": 4,
            "nodelist": "n[000-002,007]",
            "tasks": 4,
            "tasks_per_node": 1,
            "cpus_per_task": 64,
            "gres": "gpu:h100:8",
            "memory_per_node": "921600M",
            "exclusive": "exclusive",
            "time_limit": 61,
            "signal": "USR1@120",
            "current_working_directory": "/home/mia/run7",
            "standard_output": "run7-%j.out",
        },
    }


@pytest.mark.parametrize("api", ["v0.0.40", "v0.0.42", "v0.0.45"])
def test_newer_versions_take_other_names(api: str) -> None:
    """As in slurm-newer.md B.5 and slurm.md §9; not yet run live."""
    body = submit_body(GANG, DIALECTS[api], {}, "alpha")
    job = body["job"]
    inside = api != "v0.0.40"
    assert ("script" in job, "script" in body) == (inside, not inside)
    variables = job.pop("environment")
    assert f"MUSTER_JOB_NAME={GANG.title}" in variables
    job.pop("script", None)
    assert job == {
        "name": "mst-7f3a9c-a1",
        "comment": "muster:mst-7f3a9c-a1",
        "hold": True,
        "dependency": "singleton",
        "requeue": False,
        "account": "vision",
        "partition": "h100",
        "qos": "guaranteed",
        "nodes": "4",
        "required_nodes": ["n000", "n001", "n002", "n007"],
        "tasks": 4,
        "tasks_per_node": 1,
        "cpus_per_task": 64,
        "tres_per_node": "gres/gpu:h100:8",
        "memory_per_node": {"set": True, "infinite": False, "number": 921_600},
        "shared": ["none"],
        "time_limit": {"set": True, "infinite": False, "number": 61},
        "kill_warning_signal": "USR1",
        "kill_warning_delay": {"set": True, "infinite": False, "number": 120},
        "current_working_directory": "/home/mia/run7",
        "standard_output": "run7-%j.out",
    }


@pytest.mark.parametrize("api", DIALECTS)
def test_tasks_share_the_cpus_of_their_node(api: str) -> None:
    job = submit_body(replace(GANG, tasks_per_node=8), DIALECTS[api], {}, "alpha")["job"]
    assert (job["tasks"], job["tasks_per_node"], job["cpus_per_task"]) == (32, 8, 8)


def test_a_stored_gang_reads_back_and_is_as_it_was_where_nothing_new_is_asked() -> None:
    eight = replace(GANG, tasks_per_node=8)
    assert Gang.from_json(eight.to_json()) == eight
    assert Gang.from_json(GANG.to_json()) == GANG
    assert "tasks_per_node" not in GANG.to_json()


@pytest.mark.parametrize("api", DIALECTS)
def test_what_is_not_asked_is_not_sent(api: str) -> None:
    """Slurm reads 0 MiB as all of it, and an empty partition as an unknown one."""
    bare = replace(
        GANG,
        charge="",
        queue="",
        service_class="",
        shape=GangShape(1, NodeShape(0, 0, 0), exclusive=False),
        nodes=("n1",),
        signal="",
        workdir="",
        output="",
    )
    body = submit_body(bare, DIALECTS[api], {}, "alpha")
    body["job"].pop("script", None)
    assert set(body["job"]) <= {
        *("name", "comment", "hold", "dependency", "requeue", "no_requeue", "nodes", "nodelist"),
        *("required_nodes", "tasks", "tasks_per_node", "time_limit", "environment"),
        "current_working_directory",
    }
    assert body["job"]["current_working_directory"] == "/home/mia"
    assert body["job"]["requeue"] is False


def test_an_untyped_gpu_and_a_mark_of_ones_own() -> None:
    body = submit_body(replace(GANG, device=""), V38, {"mark": "muster-b"}, "alpha")
    assert body["job"]["gres"] == "gpu:8"
    assert body["job"]["comment"] == "muster-b:mst-7f3a9c-a1"


def test_environment_layers() -> None:
    options = {"environment.HOME": "/users/{account}", "environment.NCCL_DEBUG": "INFO"}
    gang = replace(
        GANG, environment={"NCCL_DEBUG": "WARN", "MUSTER_FENCE": "x", "MASTER_PORT": "9"}
    )
    found = environment(gang, options, "alpha")
    assert found["HOME"] == "/users/mia"
    assert found["NCCL_DEBUG"] == "WARN"
    assert found["MASTER_PORT"] == "9"
    assert found["MUSTER_FENCE"] == "mst-7f3a9c-a1"
    assert found["MUSTER_CLUSTER"] == "alpha"
    assert found["USER"] == "mia"
    assert "/usr/bin" in found["PATH"].split(":")


def test_torchrun_finds_its_flags() -> None:
    found = environment(GANG, {}, "alpha")
    port = int(found["MASTER_PORT"])
    assert 15_000 <= port < 30_000
    assert found["MASTER_ADDR"] == "n000"
    assert (found["NNODES"], found["GPUS_PER_NODE"], found["WORLD_SIZE"]) == ("4", "8", "32")
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"]) == ("4", "8")
    assert found["PET_RDZV_ENDPOINT"] == f"n000:{port}"
    assert found["PET_RDZV_ID"] == GANG.fence
    other = environment(replace(GANG, fence="mst-7f3a9c-a2"), {}, "alpha")
    assert other["MASTER_PORT"] != found["MASTER_PORT"]


@pytest.mark.parametrize(
    ("script", "signal", "guarded"),
    [
        ("#!/bin/bash\nx\n", "USR1", True),
        ("#!/bin/bash -l\nx\n", "SIGUSR2", True),
        ("#!/usr/bin/env bash\nx\n", "USR1", True),
        ("#! /bin/sh\nx\n", "TERM", True),
        ("#!/bin/bash", "USR1", True),
        ("#!/usr/bin/python3\nx\n", "USR1", False),
        ("#!/usr/bin/env python3\nx\n", "USR1", False),
        ("#!/bin/bash\nx\n", "", False),
        ("#!/bin/bash\nx\n", "KILL", False),
        ("#!/bin/bash\nx\n", "USR1; reboot", False),
    ],
)
def test_guards_shells_only(script: str, signal: str, guarded: bool) -> None:
    found = guard_shell(script, signal)
    assert (found != script) == guarded
    if guarded:
        first, second, *rest = found.split("\n")
        assert first == script.split("\n")[0]
        assert second.startswith(f"trap : {signal.removeprefix('SIG')} ")
        assert rest == (script.split("\n")[1:] or [""])
