"""The script that people bring: `srun torchrun` on 16 x 8, adapted only in its time and program."""

import re
from pathlib import Path

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import Muster, give

pytestmark = pytest.mark.live

SCRIPT = """#!/bin/bash
#SBATCH --comment=ignored-by-slurmrestd
srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 --rdzv-backend=c10d \\
  --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT train.py --steps 3
"""

# A launcher with torchrun's flags and its roll-call: the agent on MASTER_ADDR listens on
# MASTER_PORT, every other one reports there, and no rank starts before all nodes are present.
# (All nodes of the lab are this machine, so the address is the one that Slurm knows.)
TORCHRUN = """#!/usr/bin/python3
import argparse, os, re, runpy, socket, subprocess, sys

parser = argparse.ArgumentParser()
for flag in ("--nnodes", "--nproc-per-node"):
    parser.add_argument(flag, type=int)
for flag in ("--rdzv-backend", "--rdzv-endpoint"):
    parser.add_argument(flag)
parser.add_argument("program", nargs=argparse.REMAINDER)
given = parser.parse_args()
assert given.rdzv_backend == "c10d"
host, port = given.rdzv_endpoint.split(":")
node = int(os.environ["SLURM_NODEID"])
shown = subprocess.check_output(["scontrol", "show", "node", host], text=True)
address = re.search(r"NodeAddr=(\\S+)", shown)[1], int(port)

if os.environ["SLURMD_NODENAME"] == host:
    with socket.create_server(address) as server:
        server.settimeout(60)
        present = [server.accept()[0] for _ in range(given.nnodes - 1)]
    nodes = sorted([node, *(int(agent.recv(16)) for agent in present)])
    assert nodes == list(range(given.nnodes)), nodes
    for agent in present:
        agent.sendall(b"go")
else:
    import time
    for _ in range(600):
        try:
            agent = socket.create_connection(address, timeout=60)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    agent.sendall(str(node).encode())
    assert agent.recv(16) == b"go"

world = given.nnodes * given.nproc_per_node
workers = []
for local in range(given.nproc_per_node):
    pid = os.fork()
    if pid == 0:
        rank = node * given.nproc_per_node + local
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(local), WORLD_SIZE=str(world))
        sys.argv = given.program
        runpy.run_path(given.program[0], run_name="__main__")
        os._exit(0)
    workers.append(pid)
sys.exit(max(os.waitpid(pid, 0)[1] for pid in workers) != 0)
"""

TRAIN = """
import os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURMD_NODENAME", "NNODES", "GPUS_PER_NODE",
         "PET_NNODES", "PET_NPROC_PER_NODE", "MUSTER_TIER", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG")
os.write(1, (" ".join([*(os.environ[name] for name in names), *sys.argv[1:]]) + "\\n").encode())
"""


def install(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
    give(path, "mia")


def test_srun_torchrun_on_sixteen_nodes_of_eight(muster: Muster) -> None:
    team, home = muster.team("torchrun"), muster.people["mia"].home
    install(home / "bin" / "torchrun", TORCHRUN)
    install(home / "train.py", TRAIN)
    body = muster.body(
        team,
        nodes=16,
        run={"script": SCRIPT, "output": "run7-%j.out"},
        environment={"NCCL_DEBUG": "WARN"},
        topology={"required": "spine", "preferred": "leaf"},
        parallelism={"tp": 8, "pp": 4, "dp": 4},
    )
    job = muster.submit(body)
    done = muster.until(job, "succeeded", "failed", within_s=120)
    output = home / f"run7-{done['attempt']['backend_id']}.out"
    text = output.read_text()
    assert done["state"] == "succeeded", text
    assert output.owner() == "mia"
    lines = [line.split() for line in text.splitlines() if re.match(r"\d+ \d ", line)]
    assert sorted(int(line[0]) for line in lines) == list(range(128))
    for rank, local, world, node, *rest in lines:
        assert int(local) == int(rank) % 8
        assert node == done["attempt"]["nodes"][int(rank) // 8]
        assert world == "128"
        assert rest == ["16", "8", "16", "8", "spine", "0,1,2,3,4,5,6,7", "WARN", "--steps", "3"]
    (stay,) = agree(muster, team, [job])[job]
    assert (stay.nodes, stay.gpus) == (16, 128)
