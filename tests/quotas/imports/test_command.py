"""`manage.py quotas import`: shown, written whole with its tenants, or refused with nothing changed."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from clusters.services.configure import set_cluster_flavor
from quotas.models import Quota
from quotas.selectors import all_quotas
from quotas.services.tables import table_of
from tenancy.models import AuditEntry, Tenant
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db
SAMPLES = Path(__file__).parent / "samples"
FLAVOR = "h100-sxm-80"


@pytest.fixture(autouse=True)
def fleet() -> None:
    cluster = make.cluster()
    for name, device in ((FLAVOR, "h100"), ("a100", "a100")):
        set_cluster_flavor(
            actor=None, cluster=cluster, flavor=make.flavor(name), device=device, now=NOW
        )


def bring(name: str, system: str, *more: str, **maps: str) -> str:
    out = StringIO()
    given: list[Any] = [f"--map={word}={flavor}" for word, flavor in maps.items()]
    call_command(
        "quotas", "import", str(SAMPLES / name), f"--from={system}", *given, *more, stdout=out
    )
    return out.getvalue()


def rows() -> list[tuple[str, str, int]]:
    return [(row.tenant, row.flavor, row.guaranteed) for row in table_of(all_quotas())]


def test_a_dry_run_shows_all_and_keeps_nothing() -> None:
    out = bring("slurm.dump", "sacctmgr", "--dry-run", h100=FLAVOR)
    assert "no equal: acme has GrpTRES cpu=4096" in out
    assert "create acme/vision" in out.splitlines()
    assert "create acme/vision h100-sxm-80 (all clusters): guaranteed None -> 40" in out
    assert out.splitlines()[-1] == "5 of 5 rows would change."
    assert not Tenant.objects.exists()
    assert not Quota.objects.exists()
    assert not AuditEntry.objects.filter(object_type__in=["quota", "tenant"]).exists()


def test_an_import_makes_the_tree_and_twice_is_once() -> None:
    make.tenant("slurm/acme")
    out = bring("slurm.dump", "sacctmgr", "--under=slurm", "--why=moving in", h100=FLAVOR)
    assert "create slurm/acme\n" not in out
    assert rows() == [
        ("slurm/acme", "a100", 32),
        ("slurm/acme", FLAVOR, 64),
        ("slurm/acme/speech", FLAVOR, 24),
        ("slurm/acme/vision", FLAVOR, 40),
        ("slurm/rivals-lab", FLAVOR, 16),
    ]
    assert Tenant.objects.get(path="slurm/acme/vision").title == "Vision: pretraining"
    assert AuditEntry.objects.filter(object_type="quota", why="moving in").count() == 5
    again = bring("slurm.dump", "sacctmgr", "--under=slurm", h100=FLAVOR)
    assert again.splitlines()[-1] == "0 of 5 rows changed."


@pytest.mark.parametrize(
    ("name", "system", "word"),
    [("volcano.yaml", "volcano", "nvidia.com/gpu"), ("kueue.yaml", "kueue", "h100")],
)
def test_queues_are_written_too(name: str, system: str, word: str) -> None:
    bring(name, system, **{word: FLAVOR})
    assert ("acme", FLAVOR, 64) in rows()
    assert len(rows()) == 5


@pytest.mark.parametrize(
    ("more", "maps", "words"),
    [
        ([], {}, "No cluster has h100"),
        ([], {}, "/rows/2/flavor (acme h100)"),
        (["--under=nowhere"], {"h100": FLAVOR}, "no tenant nowhere"),
        (["--map=h100"], {}, "give the word and our flavor"),
        ([], {"h100": "a100"}, "row 7, h100: a100 is named twice"),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_does_not_hold_changes_nothing(
    more: list[str], maps: dict[str, str], words: str, dry: list[str]
) -> None:
    with pytest.raises(CommandError) as told:
        bring("slurm.dump", "sacctmgr", *more, *dry, **maps)
    assert words in str(told.value)
    assert not Tenant.objects.exists()
    assert not Quota.objects.exists()


def test_children_above_their_parent_are_named(tmp_path: Path) -> None:
    """Slurm lets limits of accounts add up to more than the one above has; quotas do not."""
    dump = tmp_path / "over.dump"
    text = (SAMPLES / "slurm.dump").read_text()
    dump.write_text(text.replace("gres/gpu:h100=24", "gres/gpu:h100=32"))
    with pytest.raises(CommandError) as told:
        bring(str(dump), "sacctmgr", h100=FLAVOR)
    assert "acme/speech 32, acme/vision 40" in str(told.value)
    assert not Tenant.objects.exists()


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        bring("nothing.yaml", "kueue")
