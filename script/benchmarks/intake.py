"""sbatch scripts and Volcano Jobs read, mapped and parsed to jobs; no database, one process.

Scripts are drawn from a seed: directives as people combine them, in any order, with comments
between, before a body of some forty lines with a launcher, so that known mistakes are looked for.
Volcano Jobs are a master and workers with claims, secrets and variables, both templates written out.
"""

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from federation.intake.job import ForeignJob
from federation.intake.place import Place
from federation.intake.sbatch import job_of, read_sbatch
from federation.intake.vcjob import read_vcjob, vcjob_of
from script.benchmarks import report

SEED = 20_264
SCRIPTS, VCJOBS, TURNS = 2_000, 200, 3
TARGET_PER_CPU_S = 1_000
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NAMES = ("h100", "a100", "h200", "b200")
MODELS: dict[str, tuple[str, ...]] = {name: (f"{name}-sxm-80",) for name in NAMES}
MODELS["nvidia.com/gpu"] = tuple(f"{name}-sxm-80" for name in NAMES)
PLACE = Place("acme/vision", NOW, entitled=MODELS["nvidia.com/gpu"], models=MODELS)
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
    kind = chance.choice(("", "", *(f"{name}:" for name in NAMES)))
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


TASK = """\
    - name: {name}
      replicas: {replicas}
      policies:
        - event: TaskCompleted
          action: CompleteJob
      template:
        spec:
          activeDeadlineSeconds: 86400
          restartPolicy: Never
          containers:
            - name: train
              image: registry.example/team/train:1.{number}
              command: [bash, -c, "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK train.py"]
              env:
{variables}
              resources:
                limits: {{cpu: "96", memory: 900Gi, nvidia.com/gpu: 8, rdma/hca: 8}}
              volumeMounts:
                - {{name: data, mountPath: /data}}
                - {{name: key, mountPath: /key, readOnly: true}}
                - {{name: shm, mountPath: /dev/shm}}
          volumes:
            - {{name: data, persistentVolumeClaim: {{claimName: data-{number}}}}}
            - {{name: key, secret: {{secretName: key}}}}
            - {{name: shm, emptyDir: {{medium: Memory, sizeLimit: 64Gi}}}}
"""


def volcano_job(number: int, chance: random.Random) -> str:
    """One Volcano Job that becomes a job."""
    line = '                - {{name: SETTING_{}, value: "{}"}}'
    variables = "\n".join(line.format(n, chance.random()) for n in range(20))
    fields = {"number": number, "variables": variables}
    workers = chance.choice((1, 3, 7, 15, 63))
    head = f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train-{number}, namespace: vision}}
spec:
  schedulerName: volcano
  minAvailable: {workers + 1}
  queue: vision
  plugins: {{svc: [], env: [], pytorch: [--master=master, --worker=worker]}}
  policies:
    - {{event: PodEvicted, action: RestartJob}}
  tasks:
"""
    tasks = [
        TASK.format(name=name, replicas=replicas, **fields)
        for name, replicas in (("master", 1), ("worker", workers))
    ]
    return head + "".join(tasks)


def timed(texts: Sequence[str], read: Callable[[str], object]) -> list[float]:
    """CPU seconds of each turn; the fastest counts, as a busy machine only makes them slower."""
    spent_s = []
    for _ in range(TURNS):
        before = time.process_time()
        made = [read(text) for text in texts]
        spent_s.append(time.process_time() - before)
        if not all(isinstance(one, ForeignJob) for one in made):
            raise RuntimeError("A file was refused.")
    return spent_s


def main() -> None:
    """Measure and print."""
    chance = random.Random(SEED)  # noqa: S311
    scripts = [script(number, chance) for number in range(SCRIPTS)]
    spent_s = timed(scripts, lambda text: job_of(read_sbatch(text), PLACE))
    vcjobs = [volcano_job(number, chance) for number in range(VCJOBS)]
    vcjobs_s = timed(vcjobs, lambda text: vcjob_of(read_vcjob(text), PLACE))
    context = {
        "scripts": SCRIPTS,
        "bytes": sum(map(len, scripts)) // SCRIPTS,
        "target": TARGET_PER_CPU_S,
        "slowest_turn": round(SCRIPTS / max(spent_s)),
        "vcjobs": VCJOBS,
        "vcjob_bytes": sum(map(len, vcjobs)) // VCJOBS,
        "seed": SEED,
    }
    rates = {
        "scripts_per_cpu_s": round(SCRIPTS / min(spent_s)),
        "vcjobs_per_cpu_s": round(VCJOBS / min(vcjobs_s)),
    }
    report("intake", rates, context)


if __name__ == "__main__":
    main()
