"""The table of options against Slurm's own: `options.txt` is read off the sources of 22.05 to 25.11.

A line is a long name, its letter or -, whether it has a value, and the releases that know it so,
where those are not all seven.
"""

from pathlib import Path

import pytest

from federation.intake.sbatch import OPTIONS
from federation.intake.sbatch.fields import _SETTERS
from federation.intake.sbatch.option import Fate
from tests.federation.intake.place import outcome

LINES = [line.split() for line in Path(__file__).with_name("options.txt").read_text().splitlines()]
HEAD = "#!/bin/bash\n#SBATCH --gpus-per-node=8 --time=60\n"
SHAPED = {
    "account", "begin", "constraint", "cpus-per-gpu", "cpus-per-task", "gpus", "gpus-per-node",
    "gpus-per-task", "gres", "mem", "mem-per-cpu", "mem-per-gpu", "mincpus", "nodes", "ntasks",
    "ntasks-per-gpu", "ntasks-per-node", "container-image", "container-workdir",
}  # fmt: skip


def test_every_option_of_every_release_is_known_as_slurm_has_it() -> None:
    for name, letter, takes, *_ in LINES:
        option = OPTIONS[name]
        assert option.short == letter.strip("-"), name
        forms = {line[2] for line in LINES if line[0] == name}
        assert option.takes in forms, (name, takes)
    pyxis = {name for name, option in OPTIONS.items() if option.versions == "Pyxis"}
    assert set(OPTIONS) - {line[0] for line in LINES} == pyxis


def test_releases_that_do_not_know_an_option_are_named() -> None:
    for name, option in OPTIONS.items():
        spans = [line[3] for line in LINES if line[0] == name and len(line) > 3]
        if len(spans) == 1 and option.versions != "Pyxis" and spans[0] != "22.05..25.11":
            first, _, last = spans[0].partition("..")
            assert option.versions == (f"from {first}" if last == "25.11" else f"to {last}"), name


def test_every_option_says_what_becomes_of_it() -> None:
    for option in OPTIONS.values():
        assert option.words.endswith("."), option.name
        assert not option.same_as or OPTIONS[option.same_as].fate is option.fate
        assert not option.variable or option.fate is Fate.CARRIED


def test_every_mapped_option_is_read_somewhere() -> None:
    names = {
        n for n, o in OPTIONS.items() if o.fate is Fate.MAPPED and not o.same_as and n != "time"
    }
    assert names == (set(_SETTERS) | SHAPED) - {
        "time",
        *(o.name for o in OPTIONS.values() if o.same_as),
    }


@pytest.mark.parametrize("name", [n for n, o in OPTIONS.items() if o.fate is not Fate.MAPPED])
def test_what_is_not_mapped_does_what_the_table_says(name: str) -> None:
    option = OPTIONS[name]
    value = "=1" if option.takes == "needed" else "=off" if name == "no-kill" else ""
    got = outcome(f"{HEAD}#SBATCH --{name}{value}\ntrain\n")
    if option.fate in (Fate.LATER, Fate.REFUSED):
        code = "not_supported" if option.fate is Fate.LATER else "refused"
        assert got == {"refused": [["/lines/3", code]]}
    elif option.fate is Fate.DROPPED:
        assert got["dropped"] == [[3, option.long]]
    else:
        plain = outcome(f"{HEAD}train\n")
        variable = {option.variable: "1"} if option.variable else {}
        assert got["job"].pop("environment", {}) == variable
        assert got == plain
