"""The demo's seed: whole, private, and the same when it runs again."""

import json
import stat
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from clusters.models import Cluster, ClusterAccount, ClusterFlavor
from clusters.selectors.connection import connection_of
from clusters.services.configure import set_secret
from federation.management import demo_world as world
from quotas.models import Quota
from quotas.services.rows import set_quota
from simulator import config as simulator_config
from tenancy.models import ApiToken, AuditEntry, Event, Tenant, User
from tenancy.selectors.access import token_principal
from tests.make import NOW

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:No directory at"),
]
FILES = ("login.json", "people.json", "simulator.json", "aurora.key", "borealis.key", "cirrus.key")


def seed(state: Path, **options: int) -> None:
    call_command("seed_demo", state=state, verbosity=0, **options)


def test_the_organisation_is_whole(tmp_path: Path) -> None:
    seed(tmp_path)
    assert Tenant.objects.filter(path__startswith="acme").count() == len(world.TENANTS)
    assert Quota.objects.count() == sum(len(tenant.quotas) for tenant in world.TENANTS)
    assert ClusterFlavor.objects.count() == 3
    assert ClusterAccount.objects.count() == 3 * 4
    login = json.loads((tmp_path / "login.json").read_text())
    assert login.keys() == {"url_path", "username", "password", "token"}
    assert Client().login(username=login["username"], password=login["password"])
    principal = token_principal(login["token"], NOW)
    assert principal is not None
    assert principal.is_admin


def test_children_are_guaranteed_no_more_than_their_parent() -> None:
    by_path = {tenant.path: tenant.quotas for tenant in world.TENANTS}
    for path, quotas in by_path.items():
        children = [other for other in by_path if other.rpartition("/")[0] == path]
        for flavor, (guaranteed, _) in quotas.items():
            below = sum(by_path[child].get(flavor, (0, None))[0] for child in children)
            assert below <= guaranteed, (path, flavor)
    gpus = {c.flavor: c.nodes * c.gpus_per_node for c in world.CLUSTERS}
    assert {name: row[0] for name, row in by_path["acme"].items()} == gpus


def test_secrets_are_random_private_and_match_on_both_sides(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    seed(first)
    for name in FILES:
        assert stat.S_IMODE((first / name).stat().st_mode) == 0o600, name
    for cluster in Cluster.objects.all():
        assert connection_of(cluster).secret == (first / f"{cluster.name}.key").read_bytes()
    seed(second)
    for name in ("aurora.key", "login.json"):
        assert (first / name).read_bytes() != (second / name).read_bytes()


def test_the_simulator_accepts_its_configuration(tmp_path: Path) -> None:
    seed(tmp_path, simulator_port_base=21000)
    config = simulator_config.load(tmp_path / "simulator.json")
    assert [(c.name, c.nodes, c.port) for c in config.clusters] == [
        ("aurora", 16, 21000),
        ("borealis", 32, 21001),
        ("cirrus", 12, 21002),
    ]
    assert Cluster.objects.get(name="borealis").endpoint == "http://127.0.0.1:21001"
    names = {user.name for user in config.clusters[0].users}
    assert set(ClusterAccount.objects.values_list("account", flat=True)) <= names
    assert [(c.kind, len(c.volcano.tokens)) for c in config.clusters] == [
        ("slurm", 0),
        ("slurm", 0),
        ("volcano", 1),
    ]
    assert set(config.clusters[2].volcano.namespaces) <= names


def test_a_demo_of_before_gets_its_volcano_cluster(tmp_path: Path) -> None:
    seed(tmp_path)
    cluster = Cluster.objects.get(name="cirrus")
    Cluster.objects.filter(pk=cluster.pk).update(backend="slurm", options={"tiers": "leaf"})
    ClusterFlavor.objects.filter(cluster=cluster).update(device="l40s")
    (tmp_path / "cirrus.key").write_bytes(b"\xff" * 32)
    seed(tmp_path)
    cluster.refresh_from_db()
    assert (cluster.backend, cluster.options) == (
        "volcano",
        {"namespaces": "ada,mia,noor,omar"},
    )
    assert cluster.flavors.get().device == "nvidia.com/gpu:l40s"
    assert connection_of(cluster).secret.isascii()
    config = simulator_config.load(tmp_path / "simulator.json")
    assert config.clusters[2].volcano.tokens[0].token.encode() == connection_of(cluster).secret


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    seed(tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in FILES}
    rows = AuditEntry.objects.count(), Event.objects.count(), ApiToken.objects.count()
    revisions = list(Cluster.objects.values_list("name", "revision"))
    seed(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == files
    assert (AuditEntry.objects.count(), Event.objects.count(), ApiToken.objects.count()) == rows
    assert list(Cluster.objects.values_list("name", "revision")) == revisions


def test_what_people_changed_stays(tmp_path: Path) -> None:
    seed(tmp_path)
    quota = Quota.objects.get(tenant__path="acme/vision", flavor="l40s-48")
    set_quota(actor=None, tenant=quota.tenant, flavor=quota.flavor, guaranteed=3, now=NOW)
    seed(tmp_path)
    quota.refresh_from_db()
    assert quota.guaranteed == 3


def test_what_was_lost_is_mended(tmp_path: Path) -> None:
    seed(tmp_path)
    (tmp_path / "aurora.key").unlink()
    (tmp_path / "people.json").unlink()
    ApiToken.objects.filter(user__username="mia").delete()
    set_secret(actor=None, cluster=Cluster.objects.get(name="cirrus"), secret=b"x", now=NOW)
    seed(tmp_path, simulator_port_base=22000)
    for cluster in Cluster.objects.all():
        assert connection_of(cluster).secret == (tmp_path / f"{cluster.name}.key").read_bytes()
        assert cluster.endpoint.startswith("http://127.0.0.1:2200")
    for name, login in json.loads((tmp_path / "people.json").read_text()).items():
        assert Client().login(username=name, password=login["password"])
        found = token_principal(login["token"], NOW)
        assert found is not None
        assert found.user == User.objects.get(username=name)
