"""Whatever the text: it is read or refused; order means nothing; what is mapped parses."""

from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from federation.core.spec import JobSpec, parse_spec
from federation.intake.job import ForeignJob
from federation.intake.sbatch import OPTIONS
from federation.intake.sbatch.lines import DirectiveError, split_words
from federation.intake.sbatch.quantities import (
    read_exports,
    read_gres,
    read_memory_mib,
    read_moment,
    read_signal,
    read_time_s,
)
from tests.federation.intake.place import outcome, read
from tests.make import NOW

ANY = st.text(st.characters(codec="utf-8"), max_size=60)
VALUES = st.one_of(
    ANY,
    st.integers(-2, 10**10).map(str),
    st.sampled_from(
        ["gpu:8", "h100:8", "1-4", "USR1@60", "ALL,A=1,A/B=2,=3", "now+1day", "1-2:3:4"]
    ),
)
WORD = st.one_of(
    ANY,
    st.sampled_from(sorted(OPTIONS)).map(lambda name: f"--{name}"),
    st.builds(lambda name, value: f"--{name}={value}", st.sampled_from(sorted(OPTIONS)), VALUES),
    st.builds(lambda letter, value: f"-{letter}{value}", st.characters(codec="ascii"), VALUES),
)
LINE = st.one_of(ANY, st.lists(WORD, max_size=4).map(lambda words: "#SBATCH " + " ".join(words)))
SCRIPT = st.lists(LINE, max_size=12).map(lambda lines: "\n".join(["#!/bin/bash", *lines]))

# One option for each thing a job can say: any of them may stand anywhere.
INDEPENDENT = (
    "--nodes=2", "--gpus-per-node=h100:8", "--ntasks-per-node=8", "--cpus-per-task=6",
    "--mem=500G", "--time=1-12", "--job-name=any", "--output=%x.out", "--signal=USR1@90",
    "--switches=1", "--exclusive", "--no-requeue", "--export=A=1", "--hint=nomultithread",
    "--comment=why", "--account=vision", "--begin=2027-01-01", "--constraint=h100",
)  # fmt: skip


@given(st.one_of(ANY, SCRIPT))
@example("#!/bin/sh\n#SBATCH --export=A=1,A/B=2")
@example("#!/bin/sh\n#SBATCH \\")
def test_any_text_is_read_or_refused(text: str) -> None:
    made = read(text)
    if isinstance(made, ForeignJob):
        assert parse_spec(made.body) == made.spec
        assert made.body["run"]["script"] == text
    else:
        assert 0 < len(made) <= 100


@given(ANY)
def test_any_value_is_read_or_not(text: str) -> None:
    for reader in (read_gres, read_memory_mib, read_signal, read_time_s, read_exports):
        reader(text)
    read_moment(text, NOW)
    with suppress(DirectiveError):
        assert all(split_words(text))


@given(st.permutations(INDEPENDENT), st.integers(1, 6))
def test_the_order_of_directives_means_nothing(options: list[str], width: int) -> None:
    def job(ordered: list[str]) -> object:
        lines = [" ".join(ordered[at : at + width]) for at in range(0, len(ordered), width)]
        return outcome("\n".join(["#!/bin/sh", *(f"#SBATCH {line}" for line in lines), "x"]))["job"]

    assert job(options) == job(list(INDEPENDENT))


SIZES = st.integers(1, 8)


@given(SIZES, SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_ways_to_ask_for_the_same_shape_agree(
    nodes: int, tasks: int, each: int, cpus: int, by_total: bool, by_task: bool
) -> None:
    """`each` GPUs for every task: said by node, as a total, or by task."""
    gpus = tasks * each
    asked = [f"--nodes={nodes}", "--time=60", f"--cpus-per-task={cpus}"]
    asked.append(f"--ntasks={nodes * tasks}" if by_total else f"--ntasks-per-node={tasks}")
    if by_task:
        asked.append(f"--gpus-per-task={each}")
    else:
        asked.append(f"--gpus={nodes * gpus}" if by_total else f"--gres=gpu:{gpus}")
    made = read("#!/bin/sh\n#SBATCH " + " ".join(asked))
    assert isinstance(made, ForeignJob), made
    spec: JobSpec = made.spec
    assert (spec.gang.nodes, spec.gang.gpus_per_node) == (nodes, gpus)
    assert spec.run.tasks_per_node == tasks
    held = spec.gang.cpus_per_gpu * gpus
    assert tasks * cpus <= held < tasks * cpus + gpus
