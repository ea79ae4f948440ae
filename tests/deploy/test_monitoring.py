"""The shipped alarms and dashboard: they name what is exported, and the runbook names them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.api.world import World, build

RULES = Path("deploy/monitoring/muster.rules.yml")
DASHBOARD = Path("deploy/monitoring/grafana-dashboard.json")
RUNBOOK = Path("docs/runbook.md")
UNIT_TESTS = Path("tests/deploy/muster.rules.test.yml")
METRIC = re.compile(r"\bmuster_[a-z_]+\b")
MATCHER = re.compile(r"\b(kind|why|state)=~?\"([^\"]+)\"")


@pytest.fixture
def world(db: None) -> World:
    return build()


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def expressions() -> list[str]:
    """Every expression of the rules and the dashboard."""
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    listed = dashboard["templating"]["list"]
    variables = [row["definition"] for row in listed if row["type"] == "query"]
    return [*(rule["expr"] for rule in rules()), *queries, *variables]


def test_every_metric_that_is_named_is_exported_with_its_labels(world: World) -> None:
    text = world.nobody.client.get("/metrics").content.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for expression in expressions():
        named = METRIC.findall(expression)
        assert named, expression
        for name in named:
            assert name in families, f"{name} is not exported"
        values = {
            (label, value)
            for name in named
            for sample in families[name].samples
            for label, value in sample.labels.items()
        }
        for label, wanted in MATCHER.findall(expression):
            for value in wanted.split("|"):
                assert (label, value) in values, f"{expression}: no {label} {value!r}"


def test_every_metric_is_on_the_dashboard_or_in_an_alarm(world: World) -> None:
    text = world.nobody.client.get("/metrics").content.decode()
    exported = {family.name for family in text_string_to_metric_families(text)}
    assert exported == {name for text in expressions() for name in METRIC.findall(text)}


def test_every_alarm_has_its_heading_in_the_runbook_and_the_reverse() -> None:
    headings = re.findall(r"^### (Muster\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    alarms = [rule["alert"] for rule in rules()]
    assert sorted(headings) == sorted(alarms)
    assert len(set(alarms)) == len(alarms)
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"page", "warn"}
        assert re.fullmatch(r"\d+[mh]", rule["for"])


def test_the_dashboard_imports_by_file() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "muster"
    assert dashboard["schemaVersion"] >= 30
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        assert {target["refId"] for target in panel["targets"]} <= {"A", "B"}
    covered = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(covered)) == len(covered), "panels lie over one another"


@pytest.mark.parametrize(
    "command", [["check", "rules", str(RULES)], ["test", "rules", str(UNIT_TESTS)]]
)
def test_promtool_agrees(command: list[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    done = subprocess.run(  # noqa: S603 - found in PATH, fixed arguments
        [promtool, *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_tests_of_the_rules_name_alarms_that_are_there() -> None:
    told = {
        check["alertname"]
        for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"]
        for check in test["alert_rule_test"]
    }
    assert told <= {rule["alert"] for rule in rules()}
    assert len(told) >= 12
