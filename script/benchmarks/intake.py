"""sbatch scripts read, mapped and parsed to jobs; no database, one process.

Scripts are drawn from a seed: directives as people combine them, in any order, with comments
between, before a body of some forty lines with a launcher, so that known mistakes are looked for.
"""

import random
import time
from datetime import UTC, datetime

from federation.intake.job import ForeignJob
from federation.intake.place import Place
from federation.intake.sbatch import job_of, read_sbatch
from script.benchmarks import report

SEED = 20_264
SCRIPTS, TURNS = 2_000, 3
TARGET_PER_CPU_S = 1_000
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MODELS = {name: (f"{name}-sxm-80",) for name in ("h100", "a100", "h200", "b200")}
PLACE = Place(
    "acme/vision", NOW, entitled=tuple(f"{name}-sxm-80" for name in MODELS), models=MODELS
)
PLAIN = (
    "--partition=gpu", "--qos=high", "--exclusive", "--mem=0", "--signal=USR1@120", "--requeue",
    "--output=logs/%x-%j.out", "--error=logs/%x-%j.err", "--switches=1", "--hint=nomultithread",
    '--comment="a run of many"', "--export=ALL,NCCL_DEBUG=INFO,OMP_NUM_THREADS=8",
    "--mail-type=END,FAIL", "--open-mode=append", "--exclude=node[17,23]",
)  # fmt: skip
LAUNCH = (
    "srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 \\",
    "  --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:29500 \\",
    "  train.py --lr 3e-4 --out $SLURM_SUBMIT_DIR/out",
)


def script(number: int, chance: random.Random) -> str:
    """One script that becomes a job."""
    kind = chance.choice(("", "", *(f"{name}:" for name in MODELS)))
    asked = [
        f"--job-name=train-{number}",
        f"--nodes={chance.choice((1, 2, 4, 8, 16, 64))}",
        f"--gres=gpu:{kind}8",
        f"--ntasks-per-node={chance.choice((1, 8))}",
        f"--cpus-per-task={chance.choice((8, 12, 16))}",
        f"--time={chance.choice(('30', '12:00:00', '3-00:00:00'))}",
        *chance.sample(PLAIN, chance.randint(2, 8)),
    ]
    chance.shuffle(asked)
    head = [f"#SBATCH {one}{chance.choice(('', '', '   # as agreed'))}" for one in asked]
    body = [f"export SETTING_{n}={chance.random()}  # {n}" for n in range(30)]
    return "\n".join(["#!/bin/bash", "# A run", *head, "", "set -euo pipefail", *body, *LAUNCH, ""])


def main() -> None:
    """Measure and print; the fastest of a few turns, as a busy machine only makes them slower."""
    chance = random.Random(SEED)  # noqa: S311
    scripts = [script(number, chance) for number in range(SCRIPTS)]
    spent_s = []
    for _ in range(TURNS):
        before = time.process_time()
        made = [job_of(read_sbatch(text), PLACE) for text in scripts]
        spent_s.append(time.process_time() - before)
        if not all(isinstance(one, ForeignJob) for one in made):
            raise RuntimeError("A script was refused.")
    context = {
        "scripts": SCRIPTS,
        "bytes": sum(map(len, scripts)) // SCRIPTS,
        "target": TARGET_PER_CPU_S,
        "slowest_turn": round(SCRIPTS / max(spent_s)),
        "seed": SEED,
    }
    report("intake", {"scripts_per_cpu_s": round(SCRIPTS / min(spent_s))}, context)


if __name__ == "__main__":
    main()
