"""The table of fields: each row does what it says, and no field of a Volcano Job is missing."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from federation.intake.fate import Fate
from federation.intake.vcjob import EVENTS, FIELDS, PLUGINS
from federation.intake.vcjob.field import Field, Takes
from tests.federation.intake.jobs import outcome
from tests.federation.intake.test_vcjob_files import DDP

CRD = Path("simulator/volcano/crds/jobs.batch.volcano.sh.yaml")
REFUSED = {Fate.LATER, Fate.REFUSED}


def with_field(path: str, value: Any) -> dict[str, Any]:
    """The job with a value at a field of its first task, container, volume and so on."""
    job = yaml.safe_load(DDP)
    place: Any = job
    *above, name = path.split(".")
    for part in above:
        key = part.removesuffix("[]")
        place.setdefault(key, [{}] if part.endswith("[]") else {})
        place = place[key][0] if part.endswith("[]") else place[key]
    place[name.removesuffix("[]")] = value
    return dict(job)


def written(path: str) -> str:
    """The path as it is told: of the first item of each list."""
    *above, name = path.split(".")
    return ".".join([*(part.replace("[]", "[0]") for part in above), name.removesuffix("[]")])


@pytest.mark.parametrize(
    "field",
    [f for f in FIELDS.values() if f.fate is Fate.DROPPED or f.fate in REFUSED],
    ids=lambda field: field.path,
)
def test_what_is_dropped_or_refused_is_told_by_its_path(field: Field) -> None:
    told = outcome(yaml.safe_dump(with_field(field.path, "x"), sort_keys=False))
    path = written(field.path)
    if field.fate in REFUSED:
        assert path in [one[2] for one in told["refused"]]
    else:
        assert path in [one[1] for one in told.get("dropped", [[0, path]])]


@pytest.mark.parametrize(
    "field",
    [f for f in FIELDS.values() if f.takes is not Takes.ANY],
    ids=lambda field: field.path,
)
def test_what_is_taken_has_to_be_what_it_takes(field: Field) -> None:
    wrong: Any = 1.5 if field.takes is not Takes.QUANTITY else {"a": 1}
    told = outcome(yaml.safe_dump(with_field(field.path, wrong), sort_keys=False))
    assert "refused" in told
    if field.path not in ("apiVersion", "kind"):
        assert [written(field.path), "wrong_type"] in [[one[2], one[1]] for one in told["refused"]]


def properties(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        is_list = inner.get("type") == "array"
        here = f"{path}.{name}"
        yield here
        if name not in ("template", "volumeClaim"):
            yield from properties(inner["items"] if is_list else inner, here + "[]" * is_list)


def test_every_field_of_the_definition_is_known() -> None:
    version = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    known = {path.removesuffix("[]") for path in FIELDS}
    stops = {f.path.removesuffix("[]") for f in FIELDS.values() if f.takes is Takes.ANY}
    unknown = [
        path
        for path in properties(spec, "spec")
        if path not in known and not any(path.startswith((f"{s}.", f"{s}[]")) for s in stops)
    ]
    assert unknown == []


def test_every_row_says_what_becomes_of_it() -> None:
    for words in (*(f.words for f in FIELDS.values()), *PLUGINS.values(), *EVENTS.values()):
        assert words.endswith("."), words
