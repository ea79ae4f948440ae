"""Volcano's definitions: of a form that an API server takes, and as strict as a running Volcano was.

`tests/live/kubernetes/test_definitions.py` asks a real API server the same.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.live.kubernetes.refusals import CASES, VERSIONS, Case, job, whole

DIRECTORY = Path("simulator/volcano/crds")
RECORDED = sorted(Path("tests/live/kubernetes/recorded").glob("*.json"))
DEFINITIONS = {
    definition["spec"]["names"]["kind"]: definition
    for definition in (yaml.safe_load(path.read_text()) for path in DIRECTORY.glob("*.yaml"))
}
WITH_STATUS = {"Job", "PodGroup", "Queue", "HyperNode"}
OPEN = "x-kubernetes-preserve-unknown-fields"


def schema_of(kind: str) -> dict[str, Any]:
    (version,) = DEFINITIONS[kind]["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all schemas in it."""
    yield schema
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    for one in inner:
        yield from parts(one)


def pruned(schema: dict[str, Any], value: Any) -> Any:
    """What an API server keeps: fields that the schema does not name are dropped."""
    if schema.get(OPEN):
        return value
    if isinstance(value, list):
        return [pruned(schema["items"], one) for one in value]
    if not isinstance(value, dict) or schema == {"type": "object"}:  # the latter is metadata
        return value
    named, any_name = schema.get("properties", {}), schema.get("additionalProperties")
    return {
        key: pruned(named.get(key, any_name), one)
        for key, one in value.items()
        if key in named or any_name is not None
    }


def complaints(kind: str, body: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(schema_of(kind)).iter_errors(body)]


def test_each_file_is_named_as_what_it_defines() -> None:
    for path in DIRECTORY.glob("*.yaml"):
        definition = yaml.safe_load(path.read_text())
        spec = definition["spec"]
        assert definition["metadata"]["name"] == path.stem
        assert path.stem == f"{spec['names']['plural']}.{spec['group']}"


def test_groups_versions_and_scopes() -> None:
    found = {}
    for kind, definition in DEFINITIONS.items():
        (version,) = definition["spec"]["versions"]
        found[kind] = f"{definition['spec']['group']}/{version['name']}"
        assert ("status" in version.get("subresources", {})) == (kind in WITH_STATUS)
        wide = definition["spec"]["scope"] == "Cluster"
        assert wide == (kind in ("Queue", "HyperNode"))
    assert found == VERSIONS


@pytest.mark.parametrize("kind", VERSIONS)
def test_the_schema_is_structural_and_fills_in_nothing(kind: str) -> None:
    for part in parts(schema_of(kind)):
        assert "type" in part or part.get("x-kubernetes-int-or-string"), part
        assert "default" not in part  # filling in is the webhook's work
        assert not ("properties" in part and "additionalProperties" in part)
        assert set(part.get("required", ())) <= set(part.get("properties", ()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.name}")
def test_what_was_refused_by_the_schema_is_and_nothing_else(case: Case) -> None:
    if case.by == "rule":
        return  # written in a language that only the server speaks
    assert bool(complaints(case.kind, case.body)) == (case.by == "schema")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_object_passes_and_keeps_each_field(path: Path) -> None:
    recorded = json.loads(path.read_text())
    assert complaints(recorded["kind"], recorded) == []
    assert pruned(schema_of(recorded["kind"]), deepcopy(recorded)) == recorded


def test_an_unknown_field_is_dropped_but_not_in_a_pod_template() -> None:
    body = whole("Job", job(nope=1))
    body["spec"]["tasks"][0]["template"]["spec"]["fieldOfTomorrow"] = 1
    kept = pruned(schema_of("Job"), body)
    assert "nope" not in kept["spec"]
    assert kept["spec"]["tasks"][0]["template"]["spec"]["fieldOfTomorrow"] == 1
