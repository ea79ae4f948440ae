"""Other systems' quotas as ours: worked samples, what has no equal, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.core.imports.kueue import parse_kueue
from quotas.core.imports.sacctmgr import parse_sacctmgr
from quotas.core.imports.tree import Imported, assemble
from quotas.core.imports.volcano import parse_volcano
from quotas.services.imports import read_foreign

SAMPLES = Path(__file__).parent / "samples"
GPU = {"nvidia.com/gpu": "h100"}
Line = tuple[str, str, int, int | None, int | None, int]


def read(name: str, system: str, under: str = "", **flavors: str) -> Imported:
    return read_foreign((SAMPLES / name).read_text(), system, flavors=flavors, under=under)


def lines(found: Imported) -> list[Line]:
    """tenant, flavor, guaranteed, borrowing limit, lending limit, weight."""
    assert not found.problems
    assert [row.number for row in found.rows] == list(range(1, len(found.rows) + 1))
    return [
        (row.tenant, row.flavor, row.guaranteed, row.borrowing_limit, row.lending_limit, row.weight)
        for row in found.rows
    ]


def told(found: Imported) -> list[str]:
    return [f"{note.about} {note.text}" for note in found.notes]


def test_a_dump_of_accounts() -> None:
    found = read("slurm.dump", "sacctmgr", h100="h100-sxm-80")
    assert lines(found) == [
        ("acme", "a100", 32, 0, None, 2),
        ("acme", "h100-sxm-80", 64, 0, None, 2),
        ("rivals-lab", "h100-sxm-80", 16, 0, None, 1),
        ("acme/vision", "h100-sxm-80", 40, 0, None, 3),
        ("acme/speech", "h100-sxm-80", 24, 0, None, 1),
    ]
    assert [(one.path, one.title) for one in found.tenants] == [
        ("acme", "Acme Research"),
        ("rivals-lab", ""),
        ("acme/vision", "Vision: pretraining"),
        ("acme/speech", ""),
        ("acme/guests", ""),
    ]
    assert told(found) == [
        "acme has GrpTRES cpu=4096: quotas here are of GPUs only.",
        "rivals_lab has MaxJobs=20, which no quota says.",
        "vision has MaxWall=4320, which no quota says.",
        "speech shares as its parent does (Fairshare=parent); it gets weight 1.",
        "users 2 associations of users: give people roles, and accounts there.",
        "rivals_lab becomes rivals-lab: names here are of a-z, 0-9 and -.",
    ]


def test_a_table_of_associations_printed_as_a_tree() -> None:
    found = read("slurm-tree.txt", "sacctmgr", under="slurm")
    assert lines(found) == [
        ("slurm/acme", "h100", 64, 0, None, 2),
        ("slurm/acme/vision", "h100", 40, 0, None, 3),
        ("slurm/acme/speech", "h100", 24, 0, None, 1),
        ("slurm/rivals", "h100", 16, 0, None, 1),
    ]
    assert "speech has GrpJobs=50, which no quota says." in told(found)


def test_a_table_with_the_parents_in_a_column() -> None:
    text = (
        "Account|User|Par Name|Share|GrpTRES\n"
        "root|||1|\nacme||root|4|gres/gpu=8\nvision||acme|parent|gres/gpu=-1\nvision|mia||1|\n"
    )
    found = assemble(parse_sacctmgr(text), flavors={"gpu": "h100"})
    assert lines(found) == [("acme", "h100", 8, 0, None, 4)]
    assert [one.path for one in found.tenants] == ["acme", "acme/vision"]


def test_queues_of_volcano() -> None:
    found = read("volcano.yaml", "volcano", **GPU)
    assert lines(found) == [
        ("acme", "h100", 64, 32, None, 2),
        ("acme/vision", "h100", 40, None, 32, 3),
        ("acme/speech", "h100", 16, None, None, 1),
        ("rivals", "h100", 8, None, None, 1),
        ("rivals/lab", "h100", 8, None, None, 1),
    ]
    assert told(found) == [
        "root is the whole there; here the tenants at the top have nothing above.",
        "acme has cpu: quotas here are of GPUs only.",
        "speech is not reclaimable; here owners take back what others have as spot.",
        "speech has priority, which no quota says.",
        "Job a-job is not looked at.",
        "rivals has no deserved nvidia.com/gpu: it is guaranteed 8, and the rest by weight as spot.",
    ]


def test_queues_and_cohorts_of_kueue() -> None:
    """The cohort `vision` keeps 8 beside the 40 of its queue; `acme` is only named, and owed both's."""
    found = read("kueue.yaml", "kueue")
    assert sorted(lines(found)) == [
        ("acme", "h100", 64, None, None, 2),
        ("acme/speech-asr", "h100", 16, None, None, 2),
        ("acme/vision", "h100", 48, None, 4, 2),
        ("acme/vision/vision", "h100", 40, 24, 30, 3),
        ("alone", "h100", 8, 0, 0, 2),
    ]
    assert told(found) == [
        "ResourceFlavor h100 selects nodes; here clusters say which GPU models they have.",
        "vision has cpu of h100: quotas here are of GPUs only.",
        "vision has borrowWithinCohort; here what borrows evicts nobody.",
        "vision has queueingStrategy, which no quota says.",
        "speech.asr has reclaimWithinCohort: Never; here an owner always takes back what others have "
        "as spot.",
        "speech.asr is stopped (HoldAndDrain): close the tenant.",
        "LocalQueue team-queue lets a namespace use vision: give people roles there.",
        "speech.asr becomes acme/speech-asr: names here are of a-z, 0-9 and -.",
        "weights are multiplied by 2: here they are whole numbers.",
    ]


# --- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "row", "field"),
    [
        ("", 0, ""),
        ("Account: acme", 1, "line"),
        ("Account - 'a':GrpTRES=gres/gpu=8G\n", 1, "GrpTRES"),
        ("Account - 'a':GrpTRES=gres/gpu=\n", 1, "GrpTRES"),
        ("\nAccount - 'a':Fairshare=1.5:GrpTRES=gres/gpu:h100=8", 2, "Fairshare"),
        ("Account - 'a'\nAccount - 'a'", 2, "name"),
        ("Account - 'a_b'\nAccount - 'a-b'", 2, "name"),
        ("Account - '__'", 1, "name"),
        ("Parent - 'nobody'\nAccount - 'a'", 2, "parent"),
        ("Parent - 'b'\nAccount - 'a'\nParent - 'a'\nAccount - 'b'", 2, "parent"),
        ("Cluster - 'a'\nCluster - 'b'\nAccount - 'x'", 2, "Cluster"),
        ("User|Share\nmia|1", 1, "header"),
        ("Account|Share\nacme|1|2", 2, "line"),
    ],
)
def test_what_is_no_dump_is_refused_by_line(text: str, row: int, field: str) -> None:
    found = assemble(parse_sacctmgr(text), flavors={})
    assert (found.problems[0].row, found.problems[0].field) == (row, field)
    assert not found.rows
    assert not found.tenants


def test_a_word_for_a_gpu_that_nobody_explained_is_refused() -> None:
    found = read("volcano.yaml", "volcano")
    assert {one.field for one in found.problems} == {"nvidia.com/gpu"}
    assert "--map nvidia.com/gpu=FLAVOR" in found.problems[0].detail
    twice = read("slurm.dump", "sacctmgr", h100="a100")
    assert [(one.row, one.code) for one in twice.problems] == [(7, "duplicate")]


def queue(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "a"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ("text", ""),
        ({"kind": "Queue"}, "metadata.name"),
        ({**queue(), "spec": [1]}, "spec"),
        (queue(deserved=[1]), "spec.deserved"),
        (queue(deserved={"nvidia.com/gpu": "8k"}), "spec.deserved.nvidia.com/gpu"),
        (queue(deserved={"nvidia.com/gpu": -1}), "spec.deserved.nvidia.com/gpu"),
        (queue(deserved={"nvidia.com/gpu": True}), "spec.deserved.nvidia.com/gpu"),
        (
            queue(deserved={"nvidia.com/gpu": 8}, capability={"nvidia.com/gpu": 4}),
            "spec.capability",
        ),
        (
            queue(deserved={"nvidia.com/gpu": 8}, guarantee={"resource": {"nvidia.com/gpu": 9}}),
            "spec.guarantee",
        ),
        (queue(weight="heavy"), "spec.weight"),
        (queue(weight="1e999999"), "spec.weight"),
        (queue(parent=7), "spec.parent"),
        (queue(parent="nobody"), "parent"),
        (queue(parent="a"), "parent"),
    ],
)
def test_what_is_no_queue_is_refused_by_field(document: Any, field: str) -> None:
    found = assemble(parse_volcano([document]), flavors=GPU)
    assert (found.problems[0].row, found.problems[0].field) == (1, field)
    assert not found.rows


def cluster_queue(resource: Any, **spec: Any) -> dict[str, Any]:
    flavors = [{"name": "h100", "resources": resource}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "a"},
        "spec": {"resourceGroups": groups, **spec},
    }


GPUS = {"name": "nvidia.com/gpu", "nominalQuota": 8}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (cluster_queue({}), "spec.resourceGroups.flavors.resources"),
        (cluster_queue([{"name": "nvidia.com/gpu"}]), "h100.nvidia.com/gpu.nominalQuota"),
        (cluster_queue([{**GPUS, "nominalQuota": "8Gi"}]), "h100.nvidia.com/gpu.nominalQuota"),
        (cluster_queue([{**GPUS, "lendingLimit": 9}]), "h100.nvidia.com/gpu.lendingLimit"),
        (cluster_queue([GPUS, {**GPUS, "name": "amd.com/gpu"}]), "h100.amd.com/gpu"),
        (cluster_queue([GPUS], resourceGroups="x"), "spec.resourceGroups"),
        (cluster_queue([GPUS], fairSharing={"weight": "-1"}), "spec.fairSharing.weight"),
        (cluster_queue([GPUS], cohort=["x"]), "spec.cohort"),
    ],
)
def test_what_is_no_cluster_queue_is_refused_by_field(document: Any, field: str) -> None:
    found = assemble(parse_kueue([document]), flavors={})
    assert (found.problems[0].row, found.problems[0].field) == (1, field)
    assert not found.rows


@pytest.mark.parametrize("system", ["volcano", "kueue"])
@pytest.mark.parametrize("text", ["", "a: [", "- 1\n- 2", "kind: Pod\nmetadata: {name: x}"])
def test_what_holds_no_queues_is_refused(system: str, text: str) -> None:
    found = read_foreign(text, system, flavors={}, under="")
    assert found.problems
    assert not found.rows


leaf = st.none() | st.booleans() | st.integers(-2, 99) | st.sampled_from(["8", "a", "root", "1k"])
words = st.sampled_from([
    "deserved", "guarantee", "resource", "capability", "weight", "parent", "nvidia.com/gpu", "cohort",
    "fairSharing", "resourceGroups", "flavors", "resources", "name", "nominalQuota", "preemption",
])  # fmt: skip
anything = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4)
)
kinds = st.sampled_from([
    ("scheduling.volcano.sh/v1beta1", "Queue"), ("kueue.x-k8s.io/v1beta1", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta1", "Cohort"), ("kueue.x-k8s.io/v1beta1", "LocalQueue"),
])  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(kinds, st.sampled_from("abc"), st.dictionaries(words, anything)), max_size=5)
)
def test_whatever_stands_there_it_is_read_or_refused(given_: list[Any]) -> None:
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for (version, kind), name, spec in given_
    ]
    for system in ("volcano", "kueue"):
        found = read_foreign(yaml.safe_dump_all(documents), system, flavors=GPU, under="x")
        assert found.problems or found.tenants
        assert not (found.problems and (found.rows or found.tenants))
        assert all((row.lending_limit or 0) <= row.guaranteed for row in found.rows)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([
    "Account - 'a'", "Account - 'b':GrpTRES=gres/gpu:h100=8,cpu=4:Fairshare=2", "Parent - 'a'", "x",
    "Parent - 'root'", "User - 'mia':Fairshare=1", "Account|Share", " a|1", "|", "", "Account - ''",
]), max_size=8))  # fmt: skip
def test_whatever_a_dump_says_it_is_read_or_refused(given_: list[str]) -> None:
    found = read_foreign("\n".join(given_), "sacctmgr", flavors={}, under="")
    assert bool(found.problems) != bool(found.tenants)
