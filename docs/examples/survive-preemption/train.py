#!/usr/bin/env python3
"""A trainer that survives preemption, in nothing but Python's standard library.

    srun python3 train.py STEPS [SECONDS_A_STEP]

Asked by USR1 it saves, all ranks the same step, proves the checkpoint to Muster, and trains on. Started
again by Muster it resumes at the step that was proven. What stands for PyTorch is marked "torch:".
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

STEPS = int(sys.argv[1])
STEP_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "1000"))  # steps, whether asked or not
STORE = Path(os.environ.get("STORE", "checkpoints")).absolute()  # seen from all nodes
RANK, RANKS = int(os.environ.get("SLURM_PROCID", "0")), int(os.environ.get("SLURM_NTASKS", "1"))
RUN = os.environ.get("MUSTER_FENCE", "by-hand")  # new in every attempt

asked = False
met = []  # this rank's word in the last meeting


def on_signal(number, frame):
    """Only takes note: saving happens between two steps, where the state is whole."""
    global asked
    asked = True


def write(path, text):
    """Whole or not at all: under another name first, on the disk, then renamed."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)


def any_rank(flag, name):
    """Whether the flag is set on any rank; waits until all have come this far.

    torch: `torch.distributed.all_reduce(tensor, op=ReduceOp.MAX)`. Here files in the store do it.
    """
    if RANKS == 1:
        return flag
    meeting = STORE / f".meeting-{RUN}"
    meeting.mkdir(parents=True, exist_ok=True)
    mine = meeting / f"{name}.{RANK}"
    write(mine, str(int(flag)))
    all_here = [meeting / f"{name}.{rank}" for rank in range(RANKS)]
    while not all(path.exists() for path in all_here):
        time.sleep(0.01)
    while met:  # who is here has read what was said in the meeting before
        met.pop().unlink()
    met.append(mine)
    return any(path.read_text() == "1" for path in all_here)


def directory(step):
    """Where the checkpoint of a step lies."""
    return STORE / f"step-{step:09d}"


def save(step, state):
    """Every rank its part, then one rank gives the whole its name: half a checkpoint has none."""
    part = STORE / f".part-{RUN}-{step:09d}"
    part.mkdir(parents=True, exist_ok=True)
    write(part / f"rank-{RANK}.json", json.dumps(state))  # torch: torch.save or DCP
    any_rank(False, f"saved-{step}")  # all parts are written
    if RANK == 0:
        if directory(step).exists():  # of an attempt that was ended before it could prove it
            shutil.rmtree(directory(step))
        part.rename(directory(step))
        prove(step)


def prove(step):
    """Tells Muster; where the nodes cannot reach it, the job's own Slurm comment does."""
    url, token = os.environ.get("MUSTER_URL"), os.environ.get("MUSTER_JOB_TOKEN")
    if url and token:
        request = urllib.request.Request(
            f"{url}/api/v1/jobs/{os.environ['MUSTER_JOB_ID']}/checkpoints",
            json.dumps({"step": step, "path": str(directory(step))}).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except (urllib.error.URLError, TimeoutError) as error:  # refused, or not reached
            print(f"not proven over REST: {error}", file=sys.stderr, flush=True)
    if job := os.environ.get("SLURM_JOB_ID"):
        comment = f"Comment=muster-checkpoint={step}"
        subprocess.run(["scontrol", "update", f"JobId={job}", comment], check=False)


def load():
    """The step and the state to go on from; a fresh start where nothing was proven."""
    if os.environ.get("MUSTER_RESUME") != "1":
        return 0, {"loss": 100.0}
    step = int(os.environ["MUSTER_RESUME_STEP"])
    # The comment holds no path: then the step alone says where it is.
    where = Path(os.environ.get("MUSTER_RESUME_PATH") or directory(step))
    state = json.loads((where / f"rank-{RANK}.json").read_text())  # torch: torch.load or DCP
    print(f"rank {RANK} resumes at step {step}", flush=True)
    return step, state


def main():
    global asked
    signal.signal(signal.SIGUSR1, on_signal)
    step, state = load()
    STORE.mkdir(parents=True, exist_ok=True)
    print(f"rank {RANK} of {RANKS} trains from step {step}", flush=True)
    while step < STEPS:
        time.sleep(STEP_S)
        state["loss"] *= 0.999  # torch: forward, backward, optimizer.step()
        step += 1
        if any_rank(asked, f"step-{step}") or step % SAVE_EVERY == 0:
            asked = False
            save(step, state)
    print(f"rank {RANK} is done at step {step}, loss {state['loss']:.6f}", flush=True)


if __name__ == "__main__":
    main()
