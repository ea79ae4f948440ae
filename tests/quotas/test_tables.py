"""Quotas from a table: all or nothing, one audit entry a change, and back as a file."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import DjangoAssertNumQueries

from clusters.services.configure import set_cluster_flavor
from kit.errors import InvalidContentError
from quotas.core.table import TableRow
from quotas.models import Quota
from quotas.services.rows import ChildrenAboveParentError
from quotas.services.tables import apply_table, plan_table
from tenancy.models import AuditEntry, Tenant
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db
H100 = "h100-sxm-80"


@pytest.fixture
def _served() -> None:
    flavor, alpha = make.flavor(), make.cluster("alpha")
    set_cluster_flavor(
        actor=None, cluster=alpha, flavor=flavor, device="h100", queue="batch", now=NOW
    )
    for path in ("acme/vision", "acme/speech", "beta"):
        make.tenant(path)


def rows(*given: tuple[str, int]) -> list[TableRow]:
    return [
        TableRow(number, path, H100, None, gpus) for number, (path, gpus) in enumerate(given, 1)
    ]


def apply(*given: tuple[str, int], prune: bool = False) -> list[str]:
    plan = apply_table(actor=None, table=rows(*given), prune=prune, why="plan 27", now=NOW)
    return [f"{change.action} {change.row.tenant}" for change in plan.changes]


def held() -> dict[str, int]:
    return dict(Quota.objects.values_list("tenant__path", "guaranteed"))


@pytest.mark.usefixtures("_served")
def test_a_table_is_written_whole_and_twice_is_once() -> None:
    assert apply(("acme", 64), ("acme/vision", 32)) == ["create acme", "create acme/vision"]
    assert apply(("acme", 64), ("acme/vision", 32)) == []
    assert apply(("acme/vision", 16), ("beta", 8)) == ["update acme/vision", "create beta"]
    assert held() == {"acme": 64, "acme/vision": 16, "beta": 8}
    assert apply(("acme", 8), prune=True) == ["update acme", "remove acme/vision", "remove beta"]
    assert held() == {"acme": 8}
    entries = AuditEntry.objects.filter(object_type="quota").order_by("id")
    assert [entry.action for entry in entries] == [
        "create", "create", "update", "create", "update", "remove", "remove",
    ]  # fmt: skip
    assert {entry.why for entry in entries} == {"plan 27"}


@pytest.mark.usefixtures("_served")
def test_the_order_of_rows_means_nothing_for_what_fits() -> None:
    apply(("acme", 8), ("acme/vision", 8))
    apply(("acme/vision", 64), ("acme", 64))
    with pytest.raises(ChildrenAboveParentError):
        apply(("acme/speech", 1))
    assert held() == {"acme": 64, "acme/vision": 64}


@pytest.mark.usefixtures("_served")
def test_nothing_is_half_applied() -> None:
    table = [
        *rows(("acme", 64), ("nowhere", 8)),
        TableRow(3, "beta", "b200", None, 8),
        TableRow(4, "beta", H100, "gamma", 8),
        TableRow(5, "beta", H100, None, 8, lending_limit=9),
        TableRow(6, "beta", H100, "alpha", 8, weight=3),
        TableRow(7, "beta", H100, None, 10**9),
    ]
    with pytest.raises(InvalidContentError) as raised:
        apply_table(actor=None, table=table, prune=False, why="", now=NOW)
    assert [problem.pointer for problem in raised.value.errors] == [
        "/rows/2/tenant", "/rows/3/flavor", "/rows/4/cluster", "/rows/5/lending_limit",
        "/rows/6/weight", "/rows/7/guaranteed",
    ]  # fmt: skip
    assert held() == {}


@pytest.mark.usefixtures("_served")
@pytest.mark.parametrize("number", [2, 40])
def test_the_number_of_statements_does_not_depend_on_the_rows(
    django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    beta = Tenant.objects.get(path="beta")
    for name in range(number):
        make.tenant(f"beta/t{name}")
    apply(("beta", 640))
    given = [(f"{beta.path}/t{name}", 8) for name in range(number)]
    with django_assert_num_queries(16):
        apply(*given)
    with django_assert_num_queries(7):
        plan_table(table=rows(*given), prune=True, now=NOW)


def command(*words: str) -> str:
    out = StringIO()
    call_command("quotas", *words, stdout=out)
    return out.getvalue()


@pytest.mark.usefixtures("_served")
@pytest.mark.parametrize("form", ["yaml", "csv"])
def test_what_is_exported_is_applied(tmp_path: Path, form: str) -> None:
    apply(("acme", 64), ("acme/vision", 32), ("beta", 8))
    path = tmp_path / f"quotas.{form}"
    path.write_text(command("export", "--format", form))
    Quota.objects.all().delete()
    told = command("apply", str(path), "--dry-run")
    assert told.endswith("3 of 3 rows would change.\n")
    assert held() == {}
    assert "create acme/vision h100-sxm-80 (all clusters): guaranteed None -> 32" in command(
        "apply", str(path), "--why", "restored"
    )
    assert held() == {"acme": 64, "acme/vision": 32, "beta": 8}
    assert command("export", "--format", form) == path.read_text()


@pytest.mark.usefixtures("_served")
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("q.yaml", "quotas: [", "not YAML"),
        ("q.yaml", "- 1", "one key"),
        ("q.yaml", "quotas: {a: 1}", "list of rows"),
        ("q.yaml", "quotas: [{tenant: beta, flavor: h100-sxm-80, guaranteed: 8T}]", "row 1, guaranteed"),
        ("q.yaml", "quotas: [{tenant: beta, gpu: 8}]", "row 1, gpu: Known"),
        ("q.csv", "tenant,flavor,guaranteed\nbeta,h100-sxm-80,=1+1\n", "row 1, guaranteed"),
        ("q.csv", "tenant,flavor,guaranteed\nacme/vision,h100-sxm-80,9\nacme,h100-sxm-80,8\n", "acme/vision 9"),
        ("q.csv", "tenant,flavor,guaranteed\nnobody,h100-sxm-80,9\n", "/rows/1/tenant: There is no tenant nobody"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(CommandError) as raised:
        command("apply", str(path))
    assert words in str(raised.value)
    assert held() == {}


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        command("apply", "/nowhere/quotas.yaml")
