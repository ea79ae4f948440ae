"""Configuration of clusters: what is refused, what is written, and that a secret stays one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from clusters.core import configuration as rules
from clusters.core.options import OPTIONS, option_problems
from clusters.models import Cluster, ClusterAccount, ClusterFlavor
from clusters.selectors.connection import configuration_etag, connection_of
from clusters.services import configure
from kit.crypto import decrypt
from kit.errors import ConflictError, InvalidContentError, StaleWriteError
from tenancy.models import AuditEntry
from tests import make
from tests.make import NOW, SECRET

pytestmark = pytest.mark.django_db


def pointers(error: pytest.ExceptionInfo[InvalidContentError]) -> list[str]:
    return [problem.pointer for problem in error.value.errors]


def test_a_new_cluster_keeps_its_secret_encrypted_and_unspoken() -> None:
    cluster = make.cluster(
        options={"charge": "ml", "tier.leaf": "^rack[0-9]+$"}, stores=["lustre-a"]
    )
    stored = bytes(Cluster.objects.get(name="aurora").secret)
    assert SECRET not in stored
    assert decrypt(stored, settings.ENVIRONMENT.encryption_keys) == SECRET
    entry = AuditEntry.objects.get(object_type="cluster")
    assert (entry.action, entry.object_id) == ("create", "aurora")
    assert entry.after is not None
    assert entry.after["options"] == {"charge": "ml", "tier.leaf": "^rack[0-9]+$"}
    assert "secret" not in json.dumps(entry.after)
    connection = connection_of(cluster)
    assert connection.secret == SECRET
    assert SECRET.decode() not in repr(connection)


def test_everything_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidContentError) as error:
        make.cluster(
            name="Aurora!",
            title="x" * 201,
            backend="lsf",
            endpoint="ftp://somewhere",
            secret=b"",
            account="two words",
            options={"charge": "ml"},
            stores=["lustre-a", "lustre-a", "two words"],
        )
    assert pointers(error) == [
        "/name",
        "/title",
        "/backend",
        "/endpoint",
        "/account",
        "/options/charge",
        "/stores/1",
        "/stores/2",
        "/secret",
    ]
    assert not Cluster.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "slurm.example",
        "ftp://slurm.example",
        "http://",
        "http://user:word@slurm.example",
        "http://slurm.example/?a=b",
        "http://slurm.example/#a",
        "http://slurm.example:0",
        "http://slurm.example:99999",
        "http://[::1",
        "http://slurm example",
        "http://slurm.example\n",
        "javascript:alert(1)",
        7,
        None,
    ],
)
def test_an_endpoint_that_is_none(endpoint: object) -> None:
    assert [p.pointer for p in rules.endpoint_problems("/endpoint", endpoint)] == ["/endpoint"]


@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:6820", "https://slurm.example/rest", "http://[::1]:6820", "https://a"],
)
def test_an_endpoint_that_is_one(endpoint: str) -> None:
    assert not list(rules.endpoint_problems("/endpoint", endpoint))


@given(st.text(max_size=70))
def test_an_accepted_name_is_legal_everywhere(name: str) -> None:
    if not list(rules.name_problems("/name", name)):
        assert name.isascii()
        assert 1 <= len(name) <= 63
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert name == name.strip("-")


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"qos.spot": "scavenger", "environment.PATH": "/usr/bin"}, None),
        ({"tier.leaf": r"^rack\d+$", "tiers": "spine,leaf", "timeout_s": "20"}, None),
        ({"qos.": "low"}, "/options/qos."),
        ({"qos": "low"}, "/options/qos"),
        ({"tier.rack": "^r"}, "/options/tier.rack"),
        ({"tier.leaf": "("}, "/options/tier.leaf"),
        ({"tiers": "leaf,leaf"}, "/options/tiers"),
        ({"timeout_s": "soon"}, "/options/timeout_s"),
        ({"accounting": "maybe"}, "/options/accounting"),
        ({"workdir": "home"}, "/options/workdir"),
        ({"colour": "red"}, "/options/colour"),
        ({"a/b~c": "x"}, "/options/a~1b~0c"),
        ({"charge": 7}, "/options/charge"),
        ([], "/options"),
    ],
)
def test_options_are_strings_of_a_known_form(options: object, pointer: str | None) -> None:
    found = option_problems("/options", options, "slurm")
    assert [problem.pointer for problem in found] == ([pointer] if pointer else [])


@pytest.mark.parametrize("backend", OPTIONS)
def test_every_option_that_the_code_reads_can_be_set_and_the_other_way_round(backend: str) -> None:
    core = {"slurm": ["charging"], "volcano": ["devices", "queueing"]}[backend]
    others = [Path("federation/services/gang.py"), *(Path(f"clusters/core/{n}.py") for n in core)]
    sources = [*Path("clusters/backends", backend).glob("*.py"), *others]
    text = "\n".join(path.read_text() for path in sources)
    read = set(re.findall(r"""options(?:\.get\(|\[|, )f?["']([a-z_]+\.?)""", text))
    read |= set(re.findall(r"""key\.removeprefix\(["']([a-z_]+\.)["']\)""", text))
    assert read == set(OPTIONS[backend])


def test_a_name_is_given_once() -> None:
    make.cluster()
    with pytest.raises(ConflictError):
        make.cluster()


def update(cluster: Cluster, etag: str, **changes: Any) -> Cluster:
    return configure.update_cluster(
        actor=None, cluster=cluster, changes=changes, expected_etag=etag, now=NOW
    )


def test_an_update_is_audited_with_before_and_after_and_raises_the_revision() -> None:
    cluster = make.cluster(title="Old")
    changed = update(cluster, configuration_etag(cluster), title="New", account="slurm")
    assert (changed.title, changed.revision) == ("New", cluster.revision + 1)
    entry = AuditEntry.objects.get(action="update")
    assert (entry.before, entry.after) == ({"title": "Old"}, {"title": "New"})


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    cluster = make.cluster(title="Same")
    same = update(cluster, configuration_etag(cluster), title="Same")
    assert same.revision == cluster.revision
    assert not AuditEntry.objects.filter(action="update").exists()


def test_a_stale_update_is_refused_and_an_observation_makes_none_stale() -> None:
    cluster = make.cluster()
    etag = configuration_etag(cluster)
    Cluster.objects.update(revision=cluster.revision + 5)  # as an observation does
    update(cluster, etag, title="First")
    with pytest.raises(StaleWriteError):
        update(cluster, etag, title="Second")
    assert Cluster.objects.get().title == "First"


def test_an_update_refuses_what_it_does_not_change() -> None:
    cluster = make.cluster()
    with pytest.raises(InvalidContentError) as error:
        update(cluster, configuration_etag(cluster), name="other", secret=b"x", endpoint="nowhere")
    assert pointers(error) == ["/name", "/secret", "/endpoint"]


def test_a_rotated_secret_is_the_one_in_use_and_the_audit_says_only_that_it_was() -> None:
    cluster = make.cluster()
    configure.set_secret(actor=None, cluster=cluster, secret=b"another key", now=NOW)
    now = Cluster.objects.get()
    assert connection_of(now).secret == b"another key"
    assert now.revision == cluster.revision + 1
    entry = AuditEntry.objects.get(action="set_secret")
    assert (entry.before, entry.after, entry.why) == (None, None, "")


def test_a_flavor_of_a_cluster_is_set_changed_and_removed() -> None:
    cluster, flavor = make.cluster(), make.flavor()

    def set_device(device: str, queue: str = "") -> ClusterFlavor:
        return configure.set_cluster_flavor(
            actor=None, cluster=cluster, flavor=flavor, device=device, queue=queue, now=NOW
        )

    set_device("h100")
    set_device("h100")
    held = set_device("h100", "batch")
    assert AuditEntry.objects.filter(action="set_flavor").count() == 2
    other = make.flavor("h100-pcie-80")
    with pytest.raises(ConflictError) as taken:
        configure.set_cluster_flavor(
            actor=None, cluster=cluster, flavor=other, device="h100", now=NOW
        )
    assert taken.value.errors[0].pointer == "/device"
    configure.remove_cluster_flavor(actor=None, held=held, now=NOW)
    assert not ClusterFlavor.objects.exists()
    entry = AuditEntry.objects.filter(action="remove_flavor").get()
    assert entry.before == {"subject": "h100-sxm-80", "device": "h100", "queue": "batch"}


@pytest.mark.parametrize(
    ("account", "home", "wrong"),
    [
        ("root", "", "/account"),
        ("", "", "/account"),
        ("mia; rm -rf /", "", "/account"),
        ("-mia", "", "/account"),
        ("mia\n", "", "/account"),
        ("mia", "home/mia", "/home"),
        ("mia", "/home/\x00", "/home"),
    ],
)
def test_an_account_that_is_none(account: str, home: str, wrong: str) -> None:
    cluster, mia = make.cluster(), make.person()
    with pytest.raises(InvalidContentError) as error:
        configure.set_account(
            actor=None, cluster=cluster, user=mia, account=account, home=home, now=NOW
        )
    assert pointers(error)[0] == wrong
    assert not ClusterAccount.objects.exists()


def test_an_account_is_set_and_removed() -> None:
    cluster, mia = make.cluster(), make.person()
    held = configure.set_account(
        actor=None, cluster=cluster, user=mia, account="mia", home="/home/mia", now=NOW
    )
    assert Cluster.objects.get().revision == cluster.revision + 1
    configure.remove_account(actor=None, held=held, now=NOW)
    configure.remove_account(actor=None, held=held, now=NOW)
    assert not ClusterAccount.objects.exists()
    assert AuditEntry.objects.filter(action="remove_account").count() == 1


def test_a_flavor_keeps_its_name_and_its_facts_are_corrected() -> None:
    flavor = make.flavor()
    fixed = configure.update_flavor(actor=None, flavor=flavor, changes={"memory_gb": 81}, now=NOW)
    assert fixed.memory_gb == 81
    with pytest.raises(InvalidContentError) as error:
        configure.update_flavor(
            actor=None, flavor=flavor, changes={"name": "h1", "memory_gb": -1}, now=NOW
        )
    assert pointers(error) == ["/name", "/memory_gb"]
    with pytest.raises(ConflictError):
        make.flavor()
