"""What a job script would do. Scripts are read, never run.

A comment line `# simulate: ...` says it outright; its words are

    seconds=30              it runs so long (job time)
    exit=3                  and ends with this code (default 0)
    forever                 it runs until its time limit or a cancel
    ignores_signals         signals do not end it, and a cancel takes Slurm's whole KillWait
    checkpoint_on=USR1      it traps this signal and goes on (repeat for more)
    saves=2                 so many seconds after such a signal it has saved a checkpoint, and sets its
                            comment to `muster-checkpoint=<seconds that it has run>`

Without the line, the script's `sleep N` commands and a last `exit N` count, so that one script
behaves alike here and on real Slurm. With neither, the cluster's `run` settings draw a run time.
"""

import random
import re
import signal
from dataclasses import dataclass, replace

from simulator.config import RunTimes

_DIRECTIVE = re.compile(r"^\s*#\s*simulate:(.*)$", re.MULTILINE)
_SLEEP = re.compile(r"^[^#\n]*?\bsleep\s+(\d+(?:\.\d+)?)([smhd]?)\b", re.MULTILINE)
_EXIT = re.compile(r"^\s*exit\s+(\d+)\s*$", re.MULTILINE)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

# Signals whose default action does not end a process (POSIX).
HARMLESS = frozenset(
    int(s) for s in (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
)


@dataclass(frozen=True)
class Program:
    """A script's fate: seconds of job time (None: for ever), exit code, what it traps, and how long
    it then takes to save (None: it does not).
    """

    seconds: float | None
    exit_code: int = 0
    ignores_signals: bool = False
    traps: tuple[int, ...] = ()
    saves: float | None = None
    valid: bool = True


def signal_number(text: str) -> int:
    """The number of `USR1`, `SIGUSR1` or `10`; 0 if there is no such signal."""
    if text.isdigit():
        return int(text) if 0 < int(text) < signal.NSIG else 0
    name = text.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    return int(signal.Signals[name]) if name in signal.Signals.__members__ else 0


def read_program(script: str, run: RunTimes, *, seed: int, job_id: int) -> Program:
    """The program of a script; the same script, seed and job id always give the same one."""
    if not script.startswith("#!"):
        return Program(seconds=0, exit_code=8, valid=False)
    drawn = _draw(run, seed, job_id)
    return told(script, drawn) or drawn


def told(text: str, otherwise: Program) -> Program | None:
    """The program that a text tells, `otherwise` where it leaves something open; None = nothing."""
    directives = " ".join(_DIRECTIVE.findall(text)).split()
    if directives:
        return _follow(directives, otherwise)
    sleeps, exits = _SLEEP.findall(text), _EXIT.findall(text)
    if not sleeps and not exits:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in sleeps)
    return Program(seconds=seconds, exit_code=int(exits[-1]) & 0xFF if exits else 0)


def _follow(words: list[str], program: Program) -> Program:
    for word in words:
        name, _, value = word.partition("=")
        if name == "seconds":
            program = replace(program, seconds=_number(value), exit_code=program.exit_code)
        elif name == "exit":
            program = replace(program, exit_code=int(_number(value)) & 0xFF)
        elif name == "forever":
            program = replace(program, seconds=None)
        else:
            program = _about_signals(program, name, value)
    if not any(word.startswith("exit=") for word in words):
        program = replace(program, exit_code=0)
    return program


def _about_signals(program: Program, name: str, value: str) -> Program:
    if name == "ignores_signals":
        return replace(program, ignores_signals=True)
    if name == "saves":
        return replace(program, saves=_number(value))
    if name == "checkpoint_on" and signal_number(value):
        return replace(program, traps=(*program.traps, signal_number(value)))
    return program


def _number(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _draw(run: RunTimes, seed: int, job_id: int) -> Program:
    dice = random.Random(f"run:{seed}:{job_id}")  # noqa: S311
    seconds = dice.uniform(run.seconds[0], run.seconds[1])
    failed = dice.randrange(100) < run.failure_percent
    return Program(seconds=seconds, exit_code=1 if failed else 0)
