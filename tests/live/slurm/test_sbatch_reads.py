"""The real sbatch as the judge of how scripts are read: which it takes, and what it finds in them.

It needs no cluster: sbatch says what it read before it looks for a controller.
"""

import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from federation.intake.sbatch import Script, read_sbatch

pytestmark = pytest.mark.live
SCRIPTS = sorted(Path("tests/federation/intake/scripts").glob("*.sh"))
SEED, DRAWN = 20_265, 200
CONF = """\
ClusterName=none
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
MessageTimeout=1
SelectType=select/cons_tres
GresTypes=gpu
NodeName=n1 CPUs=1
PartitionName=p Nodes=ALL
"""
# What sbatch finds wrong by reading alone; what a value means is another matter.
UNREADABLE = {
    "ambiguous_option", "dos_line_breaks", "empty", "invalid_directive", "missing_value",
    "no_interpreter", "null_character", "unknown_option", "unmatched_quote",
}  # fmt: skip
# Read alike and refused for the value, or known only where Pyxis is.
BY_VALUE = {"no_break_space", "two_kinds_of_memory", "pyxis_in_directives"}
TEXTS = ("account", "comment", "job-name", "partition", "qos", "wckey")


@dataclass
class Judge:
    """The real sbatch with a configuration of its own."""

    directory: Path

    def reads(self, raw: bytes) -> dict[str, str] | None:
        """The options that it found, by name; None = it refuses the script."""
        script = self.directory / "script.sh"
        script.write_bytes(raw)
        environment = {"PATH": os.environ["PATH"], "SLURM_CONF": str(self.directory / "slurm.conf")}
        done = subprocess.run(  # noqa: S603
            ["sbatch", "-v", str(script)],  # noqa: S607
            capture_output=True,
            check=False,
            cwd=self.directory,
            env=environment,
            timeout=30,
        )
        told = done.stderr.decode(errors="replace")
        if "defined options" not in told:
            return None
        return dict(re.findall(r"^sbatch: ([a-z-]+) +: (.*)$", told, re.MULTILINE))


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    if shutil.which("sbatch") is None:
        pytest.skip("needs sbatch (Debian's slurm-client)")
    directory = tmp_path_factory.mktemp("sbatch")
    (directory / "slurm.conf").write_text(CONF)
    return Judge(directory)


def is_readable(script: Script) -> bool:
    return not {problem.code for problem in script.findings.problems} & UNREADABLE


def agree(found: dict[str, str], script: Script) -> None:
    for name in TEXTS:
        given = script.given.get(name)
        assert (given.text if given else "").strip() == found.get(name, "").strip(), name


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_sbatch_reads_the_scripts_as_we_do(judge: Judge, path: Path) -> None:
    raw = path.read_bytes()
    found, script = judge.reads(raw), read_sbatch(raw.decode())
    if path.stem not in BY_VALUE:
        assert (found is not None) == is_readable(script)
    if found is not None and "heterogeneous" not in path.stem:
        agree(found, script)


def drawn(chance: random.Random) -> str:
    """A script of odd quotes, comments, short and shortened names."""

    def value() -> str:
        plain = "".join(chance.choice("ab=,#'\"\t:%-xé$ ") for _ in range(chance.randint(0, 6)))
        quote = chance.choice(("", '"', "'"))
        return f"{quote}{plain.replace(quote, '') if quote else plain}{quote}"

    def word() -> str:
        name = chance.choice(TEXTS)
        odd = ("#", "# c", "-", "stray", ":", "--=x", "-J", "''", '--comment="a\\"b"', "-vHs")
        short = (
            "--acc=x",
            "--comm=c",
            "--cont",
            "--conti",
            "--no-r",
            "--wck=1",
            "--gpus-per-nod=2",
        )
        return chance.choice(
            (f"--{name}={value()}", f"--{name} {value()}", f"-J{value()}", f"-p {value()}",
             chance.choice(odd), chance.choice(short), "-v", "-koff")
        )  # fmt: skip

    def line() -> str:
        words = " ".join(word() for _ in range(chance.randint(0, 3)))
        plain = ("", "# c", "\t", "##SBATCH --foo", " #SBATCH --foo", "#SLURM -v")
        return chance.choice(
            (f"#SBATCH {words}", f"#SBATCH\t{words}", f"#SBATCH{words}", *plain[:2])
        )

    lines = [line() for _ in range(chance.randint(1, 3))]
    return "\n".join(["#!/bin/bash", *lines, "true", "#SBATCH --foo", ""])


def test_sbatch_reads_odd_directives_as_we_do(judge: Judge) -> None:
    chance = random.Random(SEED)  # noqa: S311
    read = 0
    for _ in range(DRAWN):
        text = drawn(chance)
        found, script = judge.reads(text.encode()), read_sbatch(text)
        assert (found is not None) == is_readable(script), text
        if found is not None:
            agree(found, script)
            read += 1
    assert read > DRAWN // 5
