import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.backends.slurm import gres

KINDS = st.dictionaries(st.sampled_from(["h100", "a100", "910b", "l40s"]), st.integers(1, 999))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("gpu:h100:8", 8),
        ("gpu:h100:8(IDX:0-7)", 8),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:8", 8),
        ("gpu:2(IDX:0,3)", 2),
        ("gpu:h100:0(IDX:N/A)", 0),
        ("gpu:a100:2(IDX:0-1),gpu:h100:1(IDX:5)", 3),
        ("gres:gpu:h100:8", 8),
        ("gres/gpu:h100:8", 8),
        ("gres/gpu:h100=32,gres/gpu=32", 32),
        ("cpu=256,mem=2T,node=4,billing=256,gres/gpu=32,gres/gpu:h100=32", 32),
        ("gres/gpu=4", 4),
        ("gpu", 1),
        ("gpu:h100", 1),
        ("gpu:2K", 2048),
        ("npu:8,gpu:h100:1", 1),
        ("N/A", 0),
        ("(null)", 0),
        ("", 0),
        (None, 0),
    ],
)
def test_counts(text: str | None, number: int) -> None:
    assert gres.count(text) == number


@settings(deadline=None)
@given(KINDS)
def test_each_gpu_counts_once_in_every_spelling(kinds: dict[str, int]) -> None:
    total = sum(kinds.values())
    node = ",".join(f"gpu:{kind}:{n}(IDX:0-{n - 1})" for kind, n in kinds.items())
    tres = ",".join([*(f"gres/gpu:{kind}={n}" for kind, n in kinds.items()), f"gres/gpu={total}"])
    rows = [{"type": "gres", "name": f"gpu:{kind}", "count": n} for kind, n in kinds.items()]
    whole = {"type": "gres", "name": "gpu", "count": total}
    assert gres.by_type(node) == gres.by_type(tres) == kinds
    assert gres.count_tres([*rows, whole]) == gres.count_tres(rows) == total


def test_reads_cpus_and_memory() -> None:
    tres = "cpu=256,mem=2T,node=4"
    assert (gres.cpus(tres), gres.memory_mib(tres)) == (256, 2 * 1024**2)
    assert gres.memory_mib("cpu=1,mem=1.5G") == 1536
    assert gres.memory_mib("mem=100K") == 1
    assert (gres.cpus("node=1"), gres.memory_mib(None)) == (0, 0)
