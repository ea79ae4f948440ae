"""Whatever the text: it is read or refused. What Muster made itself is read back as it was asked."""

import re
from typing import Any
from uuid import UUID

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from clusters.backends.volcano.translate import vcjob
from clusters.core.gang import Gang
from clusters.core.resources import GangShape, NodeShape
from clusters.models import ClusterAccount
from federation.core.plan import Binding
from federation.core.spec import JobSpec, parse_spec
from federation.intake.job import ForeignJob
from federation.intake.vcjob import FIELDS
from federation.intake.vcjob.quantities import read_mebibytes, read_quantity, read_seconds
from federation.services.gang import gang_of
from tests.federation.intake.jobs import read
from tests.federation.intake.test_vcjob_files import DDP, FILES, text_of

ANY = st.text(st.characters(codec="utf-8"), max_size=60)
LINES = [line for path in FILES for line in text_of(path).splitlines()]
NAMES = sorted({field.name for field in FIELDS.values()})
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 10**12), st.floats(), ANY),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=12,
)
PATHS = sorted(FIELDS)


def check(text: str) -> None:
    made = read(text)
    if isinstance(made, ForeignJob):
        assert parse_spec(made.body) == made.spec
    else:
        assert 0 < len(made) <= 100
        assert all(re.fullmatch(r"/lines/[0-9]+", one.pointer) for one in made)


@given(st.one_of(ANY, st.lists(st.sampled_from(LINES), max_size=30).map("\n".join)))
@example("\ufeff")
@example("? a\n: b")
@example("- &a [*a]")
@example("%TAG ! x\n--- a")
@example("<<: [*a]")
@example("a: \ud800")
def test_any_text_is_read_or_refused(text: str) -> None:
    check(text)


@given(st.sampled_from(FILES), st.integers(0, 4_000), st.integers(0, 40), ANY)
def test_a_file_that_is_cut_and_patched_is_read_or_refused(
    path: Any, at: int, length: int, patch: str
) -> None:
    text = text_of(path)
    check(text[:at] + patch + text[at + length :])


@given(st.sampled_from(PATHS), VALUES)
def test_any_value_at_any_field_is_read_or_refused(path: str, value: Any) -> None:
    job = yaml.safe_load(DDP)
    place: Any = job
    *above, name = path.split(".")
    for part in above:
        key = part.removesuffix("[]")
        if not isinstance(place.get(key), dict | list):
            place[key] = [{}] if part.endswith("[]") else {}
        place = place[key][0] if part.endswith("[]") else place[key]
    place[name.removesuffix("[]")] = value
    check(yaml.safe_dump(job, allow_unicode=True))


@given(ANY)
def test_any_quantity_is_read_or_not(text: str) -> None:
    for reader in (read_quantity, read_mebibytes, read_seconds):
        reader(text)


# What is asked of Muster, goes to Volcano, and comes back.
NAMED = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=30)
MOUNTS = st.from_regex(r"/m[0-9]{1,6}(/[a-z]{1,8})?", fullmatch=True)
VARIABLES = st.from_regex(r"[A-Z][A-Z0-9_]{0,12}_", fullmatch=True).filter(
    lambda name: not name.startswith(("MUSTER_", "PET_"))
)
RUNS = st.fixed_dictionaries(
    {"image": st.sampled_from(["a/b:1", "registry.example/team/train@sha256:0a"])},
    optional={
        "command": st.lists(WORDS, min_size=1, max_size=3),
        "args": st.lists(WORDS, min_size=1, max_size=3),
        "workdir": st.sampled_from(["/work", "/data/run 7"]),
        "host_network": st.just(True),
        "rdma": st.dictionaries(
            st.sampled_from(["rdma/hca", "openshift.io/mlx5"]), st.integers(1, 8), min_size=1
        ),
        "networks": st.lists(
            st.sampled_from(["rail0", "fabric/rail1"]), min_size=1, max_size=2, unique=True
        ),
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"claim": NAMED, "mount": MOUNTS}, optional={"read_only": st.just(True)}
            ),
            min_size=1,
            max_size=3,
        ),
        "shm": st.sampled_from(["64Gi", "100Mi"]),
        "secrets": st.lists(
            st.one_of(
                st.fixed_dictionaries({"name": NAMED, "mount": MOUNTS}),
                st.fixed_dictionaries({"name": NAMED, "env": st.just(value=True)}),
                st.fixed_dictionaries({"name": NAMED, "env": VARIABLES}),
            ),
            min_size=1,
            max_size=3,
        ),
        "service_account": NAMED,
        "image_pull_secrets": st.lists(NAMED, min_size=1, max_size=2, unique=True),
        "runtime_class": NAMED,
    },
)
BODIES = st.fixed_dictionaries(
    {
        "tenant": st.just("acme/vision"),
        "flavors": st.just(["h100-sxm-80", "a100-sxm-80"]),
        "gang": st.fixed_dictionaries(
            {"nodes": st.sampled_from([1, 2, 3, 16, 65]), "gpus_per_node": st.integers(1, 8)},
            optional={
                "cpus_per_gpu": st.integers(1, 16),
                "memory_per_node": st.sampled_from(["900Gi", "1001Mi"]),
            },
        ),
        "time_limit": st.integers(1, 10**6),
        "run": RUNS,
    },
    optional={
        "name": WORDS,
        "environment": st.dictionaries(VARIABLES, WORDS, max_size=3),
        "checkpoint": st.just({"signal": "USR1", "grace": 90}),
    },
)
PERSON = ClusterAccount(account="team-mia", home="/home/mia", run_as="2001:3000")
SITE = {"environment.NCCL_IB_HCA": "mlx5", "tolerate": "gpu", "qos.guaranteed": "high"}


def gang(spec: JobSpec) -> Gang:
    """The job's first attempt, bound to nodes of a cluster."""
    need = NodeShape(
        spec.gang.gpus_per_node,
        spec.gang.cpus_per_gpu * spec.gang.gpus_per_node,
        spec.gang.memory_mib_per_node or 0,
    )
    nodes = tuple(f"n{number:03}" for number in range(spec.gang.nodes))
    one = UUID(int=1)
    binding = Binding(
        1, 1, 1, one, one, one, "kube", "h100-sxm-80", "nvidia.com/gpu:H100", "vision",
        "guaranteed", GangShape(len(nodes), need, exclusive=False), nodes, "leaf",
    )  # fmt: skip
    job = {"spec": spec.to_json(), "uuid": one, "name": spec.name, "tenant__path": spec.tenant}
    return gang_of(binding, job, person=PERSON, options=SITE)


def common(spec: JobSpec) -> dict[str, Any]:
    """What a Volcano Job can say of a job, as docs/how-to/vcjob.md lists it; secrets as a set."""
    run = spec.run.to_json()
    secrets = sorted(map(repr, run.pop("secrets", [])))
    return {
        "name": spec.name,
        "gang": spec.gang,
        "time_limit": spec.time_limit_ms,
        "run": run,
        "secrets": secrets,
        "environment": {k: v for k, v in spec.environment.items() if k != "NCCL_IB_HCA"},
    }


@given(BODIES, st.booleans())
def test_our_job_comes_back_from_volcano_as_it_was(body: dict[str, Any], is_flow: bool) -> None:
    spec = parse_spec(body)
    if isinstance(spec, tuple):  # two mounts at one path
        return
    text = yaml.dump(
        vcjob(gang(spec), SITE, "kube"),
        Dumper=yaml.CSafeDumper,
        allow_unicode=True,
        default_flow_style=is_flow,
    )
    made = read(text)
    assert isinstance(made, ForeignJob), made
    assert common(made.spec) == common(spec)
    assert [(one.option, one.code) for one in made.dropped] == [
        ("metadata.labels.muster/fence", "dropped")
    ]


def test_what_the_server_adds_to_our_job_changes_nothing() -> None:
    spec = parse_spec(
        {
            "tenant": "acme/vision",
            "flavors": ["h100-sxm-80"],
            "name": "Größe $5",
            "gang": {"nodes": 3, "gpus_per_node": 8, "cpus_per_gpu": 4, "memory_per_node": "1Gi"},
            "time_limit": 60,
            "run": {"image": "a/b:1", "command": ["torchrun", "train.py", "$(HOME)"], "shm": "1Gi"},
            "environment": {"NOTE": "costs $5 and $(NOTHING)"},
        }
    )
    assert isinstance(spec, JobSpec)
    made = vcjob(gang(spec), SITE, "kube")
    made["metadata"] |= {"uid": "6e9f", "resourceVersion": "12", "generation": 1}
    made["status"] = {"state": {"phase": "Running"}}
    for task in made["spec"]["tasks"]:
        task["maxRetry"] = 3
    back = read(yaml.safe_dump(made))
    assert isinstance(back, ForeignJob), back
    assert common(back.spec) == common(spec)
    assert "max_restarts" not in back.body["gang"]


def test_a_foreign_label_does_not_take_pins_off() -> None:
    job = yaml.safe_load(DDP)
    job["metadata"]["labels"] = {"muster/mark": "muster"}
    job["spec"]["tasks"][0]["template"]["spec"]["nodeName"] = "n1"
    made = read(yaml.safe_dump(job))
    assert "refused" in {one.code for one in made}
