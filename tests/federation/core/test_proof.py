"""What proves a checkpoint, what an attempt is told of it, and where a job can resume."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.core.checkpoint_note import MOST_STEP, has_note, noted_step, without_note
from federation.core.cycle import decide
from federation.core.explain import never_reasons
from federation.core.proof import Saved, parse_proof, proof_schema, resume_environment
from tests.federation.core.build import cluster, job, nodes, snapshot
from tests.federation.core.test_explain import fleet

HERE = cluster("c1", {"h100": nodes(2)}, stores=frozenset({"lustre-a"}))
THERE = cluster("c2", {"h100": nodes(2)}, stores=frozenset({"webtext"}))


@pytest.mark.parametrize(
    ("comment", "step"),
    [
        ("muster-checkpoint=0", 0),
        ("muster-checkpoint=120", 120),
        ("muster:mst-abcdefghijkl-a1 muster-checkpoint=120", 120),
        ("my own words muster-checkpoint=120 ", 120),
        (f"muster-checkpoint={MOST_STEP}", MOST_STEP),
        (f"muster-checkpoint={MOST_STEP + 1}", None),
        ("muster-checkpoint=99999999999999999999", None),
        ("muster-checkpoint=-1", None),
        ("muster-checkpoint=1.5", None),
        ("muster-checkpoint=1e3", None),
        ("muster-checkpoint=\u0661\u0662", None),
        ("muster-checkpoint=", None),
        ("muster-checkpoint=NaN", None),
    ],
)
def test_a_note_is_known_and_its_step_read_or_ignored(comment: str, step: int | None) -> None:
    assert has_note(comment)
    assert noted_step(comment) == step


@pytest.mark.parametrize(
    "comment",
    ["", "120", "muster:mst-abcdefghijkl-a1", "not-muster-checkpoint=1", "muster-checkpoint=1 2"],
)
def test_what_is_no_note(comment: str) -> None:
    assert not has_note(comment)
    assert noted_step(comment) is None
    assert without_note(comment) == comment


@given(st.text())
def test_no_comment_breaks_it(comment: str) -> None:
    step = noted_step(comment)
    assert step is None or (has_note(comment) and 0 <= step <= MOST_STEP)
    assert noted_step(f"{comment} muster-checkpoint=7") == 7


def test_a_proof_has_a_step_and_perhaps_a_path() -> None:
    assert parse_proof({"step": 7}) == parse_proof({"step": 7, "path": None}) == Saved(7, "")
    assert parse_proof({"step": 0, "path": "/a b/ß"}) == Saved(0, "/a b/ß")
    assert proof_schema()["required"] == ["step"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["step", "path", "x"]), inner)
        ),
    )
)
def test_whatever_is_said_is_read_or_refused(body: object) -> None:
    told = parse_proof(body)
    if isinstance(told, Saved):
        assert 0 <= told.step <= MOST_STEP
        assert len(told.path) <= 1024
    else:
        assert told


def test_what_the_next_attempt_is_told() -> None:
    assert resume_environment(None, "") == {}
    assert resume_environment(0, "") == {"MUSTER_RESUME": "1", "MUSTER_RESUME_STEP": "0"}
    assert resume_environment(7, "/a")["MUSTER_RESUME_PATH"] == "/a"


def test_what_has_saved_goes_only_where_its_checkpoint_lies() -> None:
    saved = job(1, stores=("lustre-a",), saved_in="lustre-a")
    plan = decide(snapshot([saved], [THERE, HERE]))
    (binding,) = plan.bindings
    assert binding.cluster_name == "c1"
    full = replace(HERE, flavors=(replace(HERE.flavors[0], nodes=()),))
    told = {r.cluster: r for r in decide(snapshot([saved], [THERE, full])).reasons[1]}
    assert told["c2"].code == "checkpoint_unreachable"
    assert "lustre-a" in told["c2"].message
    assert told["c1"].code != "checkpoint_unreachable"


def test_before_it_has_saved_the_store_is_one_like_others() -> None:
    asked = job(1, stores=("lustre-a",))
    (reason,) = never_reasons(asked, fleet(THERE))
    assert reason.code == "store_unavailable"
    (reason,) = never_reasons(
        asked._replace(ask=replace(asked.ask, saved_in="lustre-a")), fleet(THERE)
    )
    assert reason.code == "checkpoint_unreachable"
