"""The documentation: links resolve, commands exist, generated pages are what the code says."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from django.core.management import get_commands

from federation.core.lifecycle import JobState
from federation.core.reconciliation import Cause
from federation.management.demo_jobs import JOBS
from federation.management.reference import pages

PAGES = sorted([*Path().glob("*.md"), *Path("docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_within_the_project_resolve(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_commands_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"(?<![\w/.-])script/([a-z]+)\b(?![/.\w])", text):
        assert Path("script", name).is_file(), f"script/{name}"
    known = get_commands()
    for name in re.findall(r"manage\.py ([a-z_]+)", text):
        assert name in known, f"manage.py {name}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    todo = [Path("README.md")]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        for link in LINK.findall(page.read_text()):
            if "://" not in link:
                target = (page.parent / link.partition("#")[0]).resolve()
                todo.append(target.relative_to(Path.cwd()))
    unread = {page for page in PAGES if page.parts[:1] != (".venv",)} - seen
    assert unread <= {Path("docs/benchmarks.md")}  # linked once it holds numbers


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_fresh(name: str) -> None:
    written = Path("docs/reference", name).read_text()
    assert written == pages()[name], "run: python manage.py write_reference"


def table(title: str) -> dict[str, str]:
    """First and second cells of the tables below a heading of the page of states."""
    text = Path("docs/reference/states-and-reasons.md").read_text()
    part = text.split(f"## {title}\n", 1)[1].split("\n## ")[0]
    return dict(re.findall(r"^\| \**`([a-z_]+)`\** \| (.+?) \|", part, re.MULTILINE))


def test_every_state_and_cause_is_explained() -> None:
    assert set(table("States of a job")) == {state.value for state in JobState}
    assert set(table("Why an attempt ended")) == {cause.value for cause in Cause}


def test_every_reason_that_the_code_gives_is_explained() -> None:
    named = set()
    for name in ("explain", "aside", "snapshot", "cycle", "arbitration"):
        tree = ast.parse(Path(f"federation/core/{name}.py").read_text())
        named |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"[a-z]+(_[a-z]+)+", node.value)
        }
    explained = set(table("Reasons why a job waits"))
    contract = {
        "quota_exhausted", "borrowing_limit", "limit_reached", "no_capacity", "not_before",
        "topology_unavailable", "flavor_not_accepted", "gang_too_large", "backend_cannot_run",
        "store_unavailable", "cluster_unreachable", "cluster_draining", "queue_closed",
        "tenant_closed", "price_missing", "behind_in_queue",
    }  # fmt: skip
    assert contract & named <= explained
    assert explained - {"held"} <= named


def test_every_direct_dependency_says_why() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())
    optional = project["project"]["optional-dependencies"]["traces"]
    wanted = [
        *project["project"]["dependencies"], *optional, *project["dependency-groups"]["dev"]
    ]  # fmt: skip
    names = {re.split(r"[\[~=<>! ]", item)[0].lower() for item in wanted}
    cells = re.findall(r"^\| ([^|]+) \|", Path("docs/dependencies.md").read_text(), re.MULTILINE)
    explained = {name.strip() for cell in cells for name in cell.split(",")}
    assert explained - {"package", ""} - {c for c in explained if set(c) <= set("-:")} == names


def test_the_readme_is_true_where_it_counts() -> None:
    words = {11: "eleven", 12: "twelve", 10: "ten"}
    assert f"submits {words[len(JOBS)]} jobs" in Path("README.md").read_text()


def test_every_guarantee_names_a_test_that_exists() -> None:
    rows = [row for row in Path("docs/guarantees.md").read_text().splitlines() if row[:1] == "|"]
    promises = [row for row in rows if "---" not in row and "shown by" not in row]
    assert promises
    for row in promises:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for path, function in named:
            assert re.search(rf"^\s*def {function}\(", Path(path).read_text(), re.MULTILINE), row
