"""Who may see and do what: tokens, the tree, roles that are inherited down and never up."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.crypto import digest
from kit.errors import ConflictError, InvalidContentError, NotFoundError
from tenancy.models import ApiToken, AuditEntry, Membership, Role, Tenant, User
from tenancy.selectors.access import (
    subtree,
    tenants_by_path,
    token_principal,
    visible_tenant_ids,
    visible_tenants,
)
from tenancy.services.access import create_tenant, create_token, revoke_token, set_member
from tenancy.services.tree import update_tenant
from tests import make
from tests.make import NOW

pytestmark = pytest.mark.django_db
MONTH = timedelta(days=30)


def token(user: User, **changes: Any) -> tuple[ApiToken, str]:
    call: dict[str, Any] = {
        "actor": user,
        "user": user,
        "name": "laptop",
        "scopes": ["read", "submit"],
        "expires_at": NOW + MONTH,
        "now": NOW,
        **changes,
    }
    return create_token(**call)


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_is_kept_as_a_digest_only() -> None:
    mia = make.person()
    row, text = token(mia)
    stored = ApiToken.objects.values().get()
    assert text not in str(stored)
    assert stored["digest"] == digest(text)
    assert text.startswith(row.prefix)
    entry = AuditEntry.objects.get(object_type="token")
    assert text not in f"{entry.before}{entry.after}{entry.why}"
    assert digest(text) not in f"{entry.before}{entry.after}{entry.why}"


def test_a_token_stands_for_its_owner_with_its_scopes_until_it_expires() -> None:
    mia = make.person()
    row, text = token(mia, scopes=["read", "read"])
    found = token_principal(text, NOW + MONTH - timedelta(milliseconds=1))
    assert found is not None
    assert (found.user, found.scopes, found.token_id) == (mia, frozenset({"read"}), row.id)
    assert not found.is_admin
    assert token_principal(text, NOW + MONTH) is None


@pytest.mark.parametrize("wrong", ["", "mst_", "x" * 10_000, "mst_é", "\x00"])
def test_an_unknown_token_is_nobody(wrong: str) -> None:
    token(make.person())
    assert token_principal(wrong, NOW) is None


def test_a_revoked_token_and_a_person_who_left_are_nobody() -> None:
    mia, noor = make.person("mia"), make.person("noor")
    row, text = token(mia)
    with pytest.raises(NotFoundError):
        revoke_token(actor=noor, user=noor, token_id=row.id, now=NOW)
    assert token_principal(text, NOW)
    revoke_token(actor=mia, user=mia, token_id=row.id, now=NOW)
    revoke_token(actor=mia, user=mia, token_id=row.id, now=NOW)
    assert token_principal(text, NOW) is None
    assert AuditEntry.objects.filter(action="revoke").count() == 1
    _, other = token(noor)
    User.objects.filter(pk=noor.pk).update(is_active=False)
    assert token_principal(other, NOW) is None


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"name": ""}, ["/name"]),
        ({"name": "x" * 201}, ["/name"]),
        ({"name": "a\nb"}, ["/name"]),
        ({"scopes": []}, ["/scopes"]),
        ({"scopes": ["root"]}, ["/scopes"]),
        ({"expires_at": NOW}, ["/expires_at"]),
        ({"expires_at": NOW + timedelta(days=367)}, ["/expires_at"]),
        ({"name": "", "scopes": ["x"], "expires_at": NOW}, ["/name", "/scopes", "/expires_at"]),
    ],
)
def test_a_token_that_cannot_be_made(changes: dict[str, Any], pointers: list[str]) -> None:
    with pytest.raises(InvalidContentError) as error:
        token(make.person(), **changes)
    assert [problem.pointer for problem in error.value.errors] == pointers
    assert not ApiToken.objects.exists()


# --- the tree -------------------------------------------------------------------------------------


def test_a_tenant_knows_its_way_from_the_root() -> None:
    leaf = make.tenant("acme/vision/pretrain")
    assert leaf.parent is not None
    assert leaf.parent.parent is not None
    assert leaf.lineage == [leaf.parent.parent.id, leaf.parent.id, leaf.id]
    below = Tenant.objects.filter(subtree(leaf.parent)).values_list("path", flat=True)
    assert list(below) == ["acme/vision", "acme/vision/pretrain"]


@pytest.mark.parametrize(
    "name",
    ["usage", "quotas", "members", "", "Acme", "a b", "a/b", "-a", "a-", "a" * 64, "ä", "a\n", "."],
)
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(InvalidContentError) as error:
        create_tenant(actor=None, name=name, parent=None, now=NOW)
    assert error.value.errors[0].pointer == "/name"


@pytest.mark.parametrize("name", ["a", "9", "a-b", "a" * 63])
def test_a_name_is_given_once_below_one_parent(name: str) -> None:
    root = make.tenant("root")
    for parent in (None, root):
        create_tenant(actor=None, name=name, parent=parent, now=NOW)
        with pytest.raises(ConflictError):
            create_tenant(actor=None, name=name, parent=parent, now=NOW)


def test_closing_and_opening_are_acts_and_doing_it_twice_is_none() -> None:
    ada, acme = make.admin(), make.tenant("acme")
    for is_open in (False, False, True, True):
        tenant = Tenant.objects.get(pk=acme.pk)
        update_tenant(actor=ada, tenant=tenant, changes={"is_open": is_open}, why="audit", now=NOW)
        assert Tenant.objects.get().is_open is is_open
    acts = AuditEntry.objects.filter(object_id="acme", action__in=["close", "open"])
    assert [entry.action for entry in acts.order_by("id")] == ["close", "open"]


# --- roles: Alice owns the organisation, Bob is in a team, Charlie is a stranger --------------------


def test_roles_go_down_the_tree_and_never_up() -> None:
    for path in ("acme/vision/pretrain", "acme/language", "umbrella"):
        make.tenant(path)
    acme, vision = Tenant.objects.get(path="acme"), Tenant.objects.get(path="acme/vision")
    alice, bob, charlie = make.person("alice"), make.person("bob"), make.person("charlie")
    set_member(actor=None, tenant=acme, user=alice, role=Role.OWNER, now=NOW)
    set_member(actor=None, tenant=vision, user=bob, role=Role.SUBMITTER, now=NOW)

    def paths(user: User, at_least: str = Role.VIEWER) -> list[str]:
        return [tenant.path for tenant in visible_tenants(user, at_least)]

    everything = ["acme", "acme/language", "acme/vision", "acme/vision/pretrain"]
    assert paths(alice, Role.OWNER) == everything
    assert paths(bob) == ["acme/vision", "acme/vision/pretrain"]
    assert paths(bob, Role.OWNER) == []
    assert paths(charlie) == []
    assert visible_tenant_ids(charlie) == []
    assert paths(make.admin()) == [*everything, "umbrella"]
    assert paths(bob, Role.SUBMITTER) == ["acme/vision", "acme/vision/pretrain"]
    wanted = {"acme/vision/pretrain", "acme/language", "nowhere"}
    assert set(tenants_by_path(bob, wanted, Role.SUBMITTER)) == {"acme/vision/pretrain"}
    assert tenants_by_path(bob, wanted, Role.OWNER) == {}


def test_the_strongest_role_on_the_way_counts() -> None:
    leaf = make.tenant("acme/vision")
    bob = make.person("bob")
    acme = Tenant.objects.get(path="acme")
    set_member(actor=None, tenant=acme, user=bob, role=Role.OWNER, now=NOW)
    set_member(actor=None, tenant=leaf, user=bob, role=Role.VIEWER, now=NOW)
    assert list(visible_tenants(bob, Role.OWNER)) == [acme, leaf]
    set_member(actor=None, tenant=acme, user=bob, role=None, now=NOW)
    assert list(visible_tenants(bob)) == [leaf]
    assert not visible_tenants(bob, Role.SUBMITTER).exists()


def test_a_membership_is_changed_with_an_audit_entry_each_time() -> None:
    acme, bob = make.tenant("acme"), make.person("bob")
    roles: list[str | None] = ["viewer", "viewer", "owner", None, None]
    for role in roles:
        set_member(actor=None, tenant=acme, user=bob, role=role, now=NOW)
    assert not Membership.objects.exists()
    acts = AuditEntry.objects.filter(action="set_member").order_by("id")
    changes = [(entry.before or {}, entry.after or {}) for entry in acts]
    assert [(before["role"], after["role"]) for before, after in changes] == [
        (None, "viewer"),
        ("viewer", "owner"),
        ("owner", None),
    ]
    with pytest.raises(InvalidContentError):
        set_member(actor=None, tenant=acme, user=bob, role="king", now=NOW)


PATHS = ("a", "a/b", "a/b/c", "a/b/d", "a/e", "f", "f/g")
RANK = {None: 0, "viewer": 1, "submitter": 2, "owner": 3}


@given(st.dictionaries(st.sampled_from(PATHS), st.sampled_from(Role.values), max_size=4))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_visible_is_what_some_ancestor_grants(granted: dict[str, str]) -> None:
    tenants = {path: make.tenant(path) for path in PATHS}
    user, _ = User.objects.get_or_create(username="eve")
    Membership.objects.filter(user=user).delete()
    for path, role in granted.items():
        set_member(actor=None, tenant=tenants[path], user=user, role=role, now=NOW)
    for path, tenant in tenants.items():
        ways = [path[:end] for end in range(len(path) + 1) if path[end : end + 1] in ("", "/")]
        best = max((granted.get(way) for way in ways), key=lambda role: RANK[role], default=None)
        for at_least in Role.values:
            is_visible = visible_tenants(user, at_least).filter(pk=tenant.pk).exists()
            assert is_visible == (RANK[best] >= RANK[at_least])


def test_a_time_is_not_read_anywhere_here() -> None:
    """Expiry is judged by the `now` that is passed in, however late it really is."""
    mia = make.person()
    past = datetime.fromisoformat("2001-01-01T00:00:00+00:00")
    _, text = token(mia, expires_at=past + MONTH, now=past)
    assert token_principal(text, past)
