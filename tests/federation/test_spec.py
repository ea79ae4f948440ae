import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.spec import (
    MOST_PROBLEMS,
    JobSpec,
    UnknownSpecVersionError,
    change_spec,
    job_schema,
    parse_spec,
)
from kit.errors import FieldProblem
from tests.federation.bad_bodies import BAD
from tests.federation.bodies import small, whole


def parsed(body: object) -> JobSpec:
    spec = parse_spec(body)
    assert isinstance(spec, JobSpec), spec
    return spec


def problems(body: object) -> list[tuple[str, str]]:
    found = parse_spec(body)
    assert isinstance(found, tuple)
    return [(problem.pointer, problem.code) for problem in found]


def test_the_whole_body_is_read() -> None:
    spec = parsed(whole())
    assert spec.gang.gpus == 128
    assert spec.time_limit_ms == 72 * 3_600_000
    assert spec.stores == ("dataset:webtext", "lustre-a")
    assert (spec.run.forms, spec.claims) == (["script", "image"], ["webtext:ro"])
    assert [choice.name for choice in spec.flavors] == ["h100-sxm-80", "a100-sxm-80"]
    assert spec.options()[0] == {
        "flavor": "h100-sxm-80",
        "nodes": 16,
        "gpus_per_node": 8,
        "cpus_per_node": 64,
        "memory_mib_per_node": 900 * 1024,
    }


def test_the_least_body_gets_the_defaults() -> None:
    spec = parsed(small())
    assert (spec.service_class, spec.priority, spec.prefer) == ("auto", 500, "order")
    assert (spec.start_timeout_ms, spec.max_restarts, spec.exclusive) == (300_000, 3, False)
    assert (spec.required_tier, spec.checkpoint, spec.stores) == ("", None, ())


@pytest.mark.parametrize(("what", "body", "pointer", "code"), BAD, ids=[bad[0] for bad in BAD])
def test_bad_bodies_are_refused_at_the_spot(what: str, body: Any, pointer: str, code: str) -> None:
    assert (pointer, code) in problems(body)


def test_everything_wrong_is_told_at_once() -> None:
    body = {
        "gang": {"nodes": -1, "gpus_per_node": "8", "gpu": 1},
        "flavors": ["OK", 4],
        "run": {"script": 1},
        "array": [1],
    }
    assert set(problems(body)) == {
        ("/gang/nodes", "out_of_range"),
        ("/gang/gpus_per_node", "wrong_type"),
        ("/gang/gpu", "unknown_field"),
        ("/flavors/0", "invalid_format"),
        ("/flavors/1", "wrong_type"),
        ("/run/script", "wrong_type"),
        ("/array", "not_supported"),
        ("/tenant", "required"),
        ("/time_limit", "required"),
    }


def test_a_million_mistakes_are_answered_briefly() -> None:
    assert len(problems({f"field-{n}": n for n in range(100_000)})) == MOST_PROBLEMS


def test_a_misspelled_field_is_told_the_nearest_name() -> None:
    found = parse_spec(small(time_limt=5))
    assert isinstance(found, tuple)
    assert found[0].detail == "No such field. Did you mean time_limit?"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (5400, 5400),
        ("72:00:00", 259_200),
        ("3-00:00:00", 259_200),
        ("90m", 5400),
        ("1h30m", 5400),
        ("45s", 45),
        ("2d", 172_800),
        ("0:00:01", 1),
    ],
)
def test_durations(text: int | str, seconds: int) -> None:
    assert parsed(small(time_limit=text)).time_limit_ms == seconds * 1000


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("900Gi", 921_600), ("1Mi", 1), ("1Ki", 1), ("1G", 954), ("2Ti", 2_097_152)],
)
def test_memory_is_rounded_up_to_mebibytes(text: str, mebibytes: int) -> None:
    gang = {"nodes": 1, "gpus_per_node": 1, "memory_per_node": text}
    assert parsed(small(gang=gang)).gang.memory_mib_per_node == mebibytes


@pytest.mark.parametrize(
    "name",
    ["", "x", "X" * 200, "训练-π-🚀", "👩‍👩‍👧", "$(rm -rf /)", "<b>", "全角　空白", "9lives"],
)
def test_any_printable_name_is_a_label(name: str) -> None:
    assert parsed(small(name=name)).name == name


@pytest.mark.parametrize(
    ("given", "number"), [("low", 100), ("normal", 500), ("high", 700), ("critical", 900), (0, 0)]
)
def test_priorities(given: int | str, number: int) -> None:
    assert parsed(small(priority=given)).priority == number


def test_null_and_empty_are_the_same_as_left_out() -> None:
    empty: dict[str, Any] = dict.fromkeys(
        ["name", "class", "priority", "topology", "parallelism", "checkpoint", "labels"]
    )
    later = {"deadline": None, "depends_on": [], "array": {}}
    assert parsed(small(**empty, **later)) == parsed(small())


def test_a_flavor_may_override_the_gang_and_its_parallelism() -> None:
    half = {"name": "h200", "gang": {"nodes": 2}, "parallelism": {"tp": 8, "dp": 2}}
    spec = parsed(small(flavors=["h100", half], parallelism={"tp": 8, "dp": 4}))
    assert [option["nodes"] for option in spec.options()] == [4, 2]
    assert [option["gpus_per_node"] for option in spec.options()] == [8, 8]
    assert spec.environment_on("h100")["MUSTER_DP"] == "4"
    assert spec.environment_on("h200")["MUSTER_DP"] == "2"


def test_tasks_share_the_cpus_of_a_node_on_every_flavor() -> None:
    run = {"script": "#!/bin/bash\nsrun python train.py", "tasks_per_node": 16}
    body = small(run=run, gang={"nodes": 2, "gpus_per_node": 8, "cpus_per_gpu": 2})
    assert parsed(body).run.tasks_per_node == 16
    assert JobSpec.from_json(parsed(body).to_json()) == parsed(body)
    body["flavors"] = ["h100-sxm-80", {"name": "a100-sxm-80", "gang": {"cpus_per_gpu": 1}}]
    assert problems(body) == [("/run/tasks_per_node", "out_of_range")]


def test_the_parallelism_goes_to_the_job_as_variables() -> None:
    variables = parsed(whole()).environment_on("h100-sxm-80")
    assert variables["NCCL_DEBUG"] == "WARN"
    assert variables["MUSTER_TP"] == "8"
    assert variables["MUSTER_GLOBAL_BATCH"] == "1024"
    assert variables["MUSTER_SEQUENCE_PARALLEL"] == "1"
    assert not any(name.startswith("MUSTER") for name in parsed(small()).environment_on("h100"))


def test_an_unknown_stored_version_is_told_apart() -> None:
    with pytest.raises(UnknownSpecVersionError):
        JobSpec.from_json({**parsed(small()).to_json(), "v": 2})


def test_a_change_gives_the_job_after_it() -> None:
    spec = parsed(whole())
    changed = change_spec(spec, {"priority": "high", "labels": {"a": "b"}, "time_limit": "2d"})
    assert isinstance(changed, JobSpec)
    assert (changed.priority, changed.labels, changed.time_limit_ms) == (
        700,
        {"a": "b"},
        172_800_000,
    )
    assert changed.gang == spec.gang


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ([], "", "wrong_type"),
        ({"gang": {}}, "/gang", "not_changeable"),
        ({"prority": 3}, "/prority", "unknown_field"),
        ({"priority": None}, "/priority", "wrong_type"),
        ({"time_limit": -1}, "/time_limit", "out_of_range"),
        ({"flavors": ["h100", 4]}, "/flavors/1", "wrong_type"),
    ],
)
def test_bad_changes_are_refused_at_the_spot(body: Any, pointer: str, code: str) -> None:
    found = change_spec(parsed(whole()), body)
    assert isinstance(found, tuple)
    assert (pointer, code) in [(problem.pointer, problem.code) for problem in found]


def test_the_schema_names_every_field_of_the_reference() -> None:
    schema = job_schema()
    assert set(whole()) <= set(schema["properties"])
    assert set(schema["required"]) == {"tenant", "flavors", "gang", "time_limit", "run"}
    json.dumps(schema)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
names = st.sampled_from(sorted(whole()))


@given(json_values)
def test_no_body_makes_it_raise(body: Any) -> None:
    found = parse_spec(body)
    assert isinstance(found, tuple)
    assert all(isinstance(problem, FieldProblem) for problem in found)


@given(st.dictionaries(names, json_values, max_size=5), st.booleans())
def test_no_wrong_field_makes_it_raise_and_every_pointer_can_be_sent(
    changes: dict[str, Any], is_whole: bool
) -> None:
    found = parse_spec((whole if is_whole else small)(**changes))
    if isinstance(found, tuple):
        assert found
        for problem in found:
            assert problem.pointer.startswith("/")
            json.dumps([problem.pointer, problem.detail], ensure_ascii=False).encode()
    else:
        assert JobSpec.from_json(json.loads(json.dumps(found.to_json()))) == found


sizes = st.fixed_dictionaries(
    {"nodes": st.integers(1, 64), "gpus_per_node": st.integers(1, 16)},
    optional={
        "cpus_per_gpu": st.integers(1, 16),
        "memory_per_node": st.integers(1, 2000).map(lambda n: f"{n}Gi"),
        "exclusive": st.booleans(),
        "start_timeout": st.integers(1, 600),
    },
)
runs = st.fixed_dictionaries(
    {"image": st.just("trainer:1")},
    optional={
        "script": st.just("#!/bin/sh\ntrue"),
        "command": st.lists(st.text(st.characters(categories=["L", "N"])), max_size=3),
        "host_network": st.booleans(),
        "rdma": st.dictionaries(st.sampled_from(["rdma/hca", "intel.com/vf"]), st.integers(1, 64)),
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"claim": st.sampled_from(["a", "b"]), "mount": st.sampled_from(["/a", "/b/c"])},
                optional={"read_only": st.booleans()},
            ),
            max_size=2,
            unique_by=lambda one: one["mount"],
        ),
        "shm": st.sampled_from(["64Gi", "100Mi"]),
        "secrets": st.lists(
            st.fixed_dictionaries({"name": st.just("s"), "env": st.just("A") | st.just(True)})
            | st.fixed_dictionaries({"name": st.just("s"), "mount": st.just("/s")}),
            max_size=3,
            unique_by=str,
        ),
        "service_account": st.just("trainer"),
    },
)
bodies = st.builds(
    small,
    run=st.just({"script": "#!/bin/bash\nsrun true"}) | runs,
    gang=sizes,
    time_limit=st.integers(1, 10**6) | st.sampled_from(["3-00:00:00", "90m"]),
    priority=st.integers(0, 1000) | st.sampled_from(["low", "high"]),
    name=st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=200),
    not_before=st.none() | st.just("2031-05-01T10:00:00.250+02:00"),
    flavors=st.lists(
        st.sampled_from(["a", "b"])
        | st.fixed_dictionaries(
            {"name": st.sampled_from(["c", "d"])},
            optional={"gang": st.fixed_dictionaries({}, optional={"nodes": st.integers(1, 9)})},
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda item: item if isinstance(item, str) else item["name"],
    ),
)


@given(bodies)
def test_the_stored_form_reads_back_the_same(body: dict[str, Any]) -> None:
    spec = parsed(body)
    stored = json.loads(json.dumps(spec.to_json()))
    assert JobSpec.from_json(stored) == spec
    del stored["v"]
    assert parsed(stored) == spec
