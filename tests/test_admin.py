"""The admin: every save goes through an audited service, state is read-only, secrets stay in."""

import base64
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor
from clusters.selectors.connection import configuration_etag, connection_of
from clusters.services.configure import set_account, set_cluster_flavor
from kit.admin import ReadOnlyAdmin, ServiceAdmin
from quotas.core.policy import Policy
from quotas.models import Limit, Quota, QuotaPolicy
from quotas.services.rows import set_quota
from tenancy.models import ApiToken, AuditEntry, Membership, Tenant, User
from tenancy.services.access import create_token, set_member
from tests import make
from tests.make import NOW, PASSWORD, SECRET

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:No directory at"),  # nothing is collected in a checkout
]
admin.autodiscover()  # as config.urls does; a model is registered once
REGISTERED = sorted(admin.site._registry.items(), key=lambda item: item[0]._meta.label)
XSS = "<script>alert(1)</script>"


def url(model: type[Model], page: str, *arguments: object) -> str:
    opts = model._meta
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_{page}", args=arguments)


@pytest.fixture
def ada() -> User:
    return make.admin()


@pytest.fixture
def site(ada: User) -> Client:
    client = Client()
    client.force_login(ada)
    return client


def errors_of(response: Any) -> list[str]:
    assert response.status_code == 200
    found = response.context["adminform"].form.errors
    return sorted(found)


def test_nothing_is_registered_that_is_neither_configuration_nor_read_only() -> None:
    for model, model_admin in REGISTERED:
        if model._meta.app_label != "accounting":  # has an admin test of its own
            assert isinstance(model_admin, ServiceAdmin | ReadOnlyAdmin), model._meta.label
        assert model._meta.label not in {"auth.Group", "tenancy.IdempotencyRecord"}


@pytest.mark.parametrize("model", [model for model, _ in REGISTERED], ids=lambda m: m._meta.label)
def test_only_admins_see_anything(model: type[Model], site: Client) -> None:
    assert site.get(url(model, "changelist")).status_code == 200
    staff = make.person("sam")
    User.objects.filter(pk=staff.pk).update(is_staff=True)
    staff.refresh_from_db()
    stranger = Client()
    stranger.force_login(staff)
    for page in ("changelist", "add"):
        assert stranger.get(url(model, page)).status_code == 403
    anybody = Client().get(url(model, "changelist"))
    assert anybody.status_code == 302
    assert anybody["Location"].startswith("/admin/login/")


@pytest.mark.parametrize(
    "model",
    [model for model, held in REGISTERED if isinstance(held, ReadOnlyAdmin)],
    ids=lambda m: m._meta.label,
)
def test_state_is_read_only(model: type[Model], site: Client) -> None:
    assert site.get(url(model, "add")).status_code == 403
    assert site.post(url(model, "add"), {}).status_code == 403
    row = {"_selected_action": ["1"], "action": "delete_selected"}
    page = site.post(url(model, "changelist"), row, follow=True)
    assert "delete_selected" not in page.content.decode()


def test_a_row_of_state_can_be_read_and_not_written(site: Client) -> None:
    entry = AuditEntry.objects.get(action="create", object_type="user")
    page = site.get(url(AuditEntry, "change", entry.pk))
    assert page.status_code == 200
    assert "_save" not in page.content.decode()
    assert site.post(url(AuditEntry, "change", entry.pk), {"why": "x"}).status_code == 403
    assert site.post(url(AuditEntry, "delete", entry.pk), {"post": "yes"}).status_code == 403


# --- each kind of configuration: a form that makes it, a form that changes it, whether it can go ---

CLUSTER = {
    "name": "aurora",
    "title": XSS,
    "backend": "slurm",
    "endpoint": "http://127.0.0.1:6820",
    "account": "slurm",
    "options": '{"charge": "ml"}',
    "stores": "lustre-a",
    "secret_base64": base64.b64encode(SECRET).decode(),
}


def cluster_change(held: Model) -> dict[str, object]:
    assert isinstance(held, Cluster)
    kept = {name: CLUSTER[name] for name in CLUSTER if name not in {"name", "secret_base64"}}
    return {**kept, "title": "Aurora", "etag": configuration_etag(held)}


def flavor_and_cluster() -> tuple[Flavor, Cluster]:
    return make.flavor(), make.cluster()


def cluster_flavor_form() -> dict[str, object]:
    flavor, cluster = flavor_and_cluster()
    return {"cluster": cluster.pk, "flavor": flavor.pk, "device": "h100", "queue": ""}


def account_form() -> dict[str, object]:
    person, cluster = make.person(), make.cluster()
    return {"cluster": cluster.pk, "user": person.pk, "account": "mia", "home": ""}


def membership_form() -> dict[str, object]:
    return {"user": make.person().pk, "tenant": make.tenant("acme").pk, "role": "viewer"}


def quota_form() -> dict[str, object]:
    flavor, tenant = make.flavor(), make.tenant("acme")
    place = {"tenant": tenant.pk, "flavor": flavor.pk}
    return {**place, "guaranteed": 8, "weight": 1, "seen": 0, "why": "new"}


def limit_form() -> dict[str, object]:
    place = {"tenant": make.tenant("acme").pk, "scope": "label", "label": "team", "text": XSS}
    return {**place, "running_gpus": 8, "seen": 0, "why": "new"}


Form = Callable[[], dict[str, object]]
Change = Callable[[Model], dict[str, object]]
KINDS: list[tuple[type[Model], Form, Change | None, bool]] = [
    (Cluster, lambda: dict(CLUSTER), cluster_change, False),
    (
        Flavor,
        lambda: {"name": "h100", "vendor": XSS, "memory_gb": 80, "bf16_tflops": 989},
        lambda held: {"vendor": "nvidia", "memory_gb": 80, "bf16_tflops": 989},
        False,
    ),
    (ClusterFlavor, cluster_flavor_form, lambda held: {"device": "h100x", "queue": "b"}, True),
    (ClusterAccount, account_form, lambda held: {"account": "mia2", "home": "/home/mia"}, True),
    (
        Tenant,
        lambda: {"name": "acme", "title": XSS, "is_open": "on"},
        lambda held: {"title": "Acme", "why": "over"},
        False,
    ),
    (Membership, membership_form, lambda held: {"role": "owner"}, True),
    (
        User,
        lambda: {"username": "zoe", "first_name": XSS, "is_active": "on"},
        lambda held: {"first_name": "Zoe", "is_active": "on"},
        False,
    ),
    (
        Quota,
        quota_form,
        lambda held: {"guaranteed": 16, "weight": 1, "seen": 1, "why": "more"},
        True,
    ),
    (Limit, limit_form, lambda held: {"waiting_jobs": 5, "seen": 1, "why": "more"}, True),
    (
        QuotaPolicy,
        lambda: {**asdict(Policy()), "aging_ms": 0},
        lambda held: {**asdict(Policy()), "half_life_ms": 3_600_000, "claim_ms": 60_000},
        False,
    ),
]
KIND_IDS = [kind[0]._meta.label for kind in KINDS]


def test_every_kind_of_configuration_is_tried_here_or_by_its_own_test() -> None:
    tried = {kind[0] for kind in KINDS} | {ApiToken}
    held_elsewhere = {"accounting"}  # tests/accounting walks its own admin
    known = {
        model
        for model, model_admin in REGISTERED
        if isinstance(model_admin, ServiceAdmin) and model._meta.app_label not in held_elsewhere
    }
    assert known == tried


@pytest.mark.parametrize(("model", "form", "change", "goes"), KINDS, ids=KIND_IDS)
def test_configuration_is_saved_by_an_audited_service(
    model: type[Any], form: Form, change: Change, goes: bool, site: Client, ada: User
) -> None:
    body = form()
    seen = AuditEntry.objects.count()
    made = site.post(url(model, "add"), body)
    assert made.status_code == 302, made.context["adminform"].form.errors
    assert AuditEntry.objects.count() > seen
    assert AuditEntry.objects.first().actor == ada  # type: ignore[union-attr]
    held = model.objects.exclude(pk=ada.pk).get() if model is User else model.objects.get()

    page = site.get(url(model, "change", held.pk)).content.decode()
    listed = site.get(url(model, "changelist")).content.decode()
    assert XSS not in page + listed
    assert SECRET.decode() not in page
    assert str(CLUSTER["secret_base64"]) not in page

    seen = AuditEntry.objects.count()
    changed = site.post(url(model, "change", held.pk), change(held))
    assert changed.status_code == 302, changed.context["adminform"].form.errors
    assert AuditEntry.objects.count() > seen
    assert AuditEntry.objects.first().actor == ada  # type: ignore[union-attr]

    seen = AuditEntry.objects.count()
    gone = site.post(url(model, "delete", held.pk), {"post": "yes"})
    if goes:
        assert gone.status_code == 302
        assert not model.objects.filter(pk=held.pk).exists()
        assert AuditEntry.objects.count() == seen + 1
    else:
        assert gone.status_code == 403
        assert model.objects.filter(pk=held.pk).exists()


def test_a_refusal_of_the_service_is_an_error_of_the_form(site: Client) -> None:
    refused = site.post(url(Cluster, "add"), {**CLUSTER, "options": '{"colour": "red"}'})
    assert errors_of(refused) == ["options"]
    assert "No such option" in refused.content.decode()
    assert not Cluster.objects.exists()
    no_key = site.post(url(Cluster, "add"), {**CLUSTER, "secret_base64": ""})
    assert errors_of(no_key) == ["__all__"]
    not_a_key = site.post(url(Cluster, "add"), {**CLUSTER, "secret_base64": "%%%"})
    assert errors_of(not_a_key) == ["secret_base64"]


def test_a_stale_form_is_refused(site: Client) -> None:
    cluster = make.cluster()
    form = cluster_change(cluster)
    assert site.post(url(Cluster, "change", cluster.pk), form).status_code == 302
    late = site.post(url(Cluster, "change", cluster.pk), {**form, "title": "Late"})
    assert errors_of(late) == ["__all__"]
    assert "was changed since you read it" in late.content.decode()
    assert Cluster.objects.get().title == "Aurora"


def test_an_empty_key_keeps_the_stored_one_and_a_file_replaces_it(site: Client) -> None:
    cluster = make.cluster()
    site.post(url(Cluster, "change", cluster.pk), cluster_change(cluster))
    cluster.refresh_from_db()
    assert connection_of(cluster).secret == SECRET
    raw = bytes(range(32))
    form = {**cluster_change(cluster), "secret_file": SimpleUploadedFile("jwt_hs256.key", raw)}
    assert site.post(url(Cluster, "change", cluster.pk), form).status_code == 302
    cluster.refresh_from_db()
    assert connection_of(cluster).secret == raw
    both = {
        **cluster_change(cluster),
        "secret_file": SimpleUploadedFile("jwt_hs256.key", raw),
        "secret_base64": base64.b64encode(b"other").decode(),
    }
    assert errors_of(site.post(url(Cluster, "change", cluster.pk), both)) == ["secret_base64"]


def test_no_page_and_no_audit_row_holds_the_secret(site: Client) -> None:
    site.post(url(Cluster, "add"), CLUSTER)
    cluster = Cluster.objects.get()
    texts = [SECRET.decode(), str(CLUSTER["secret_base64"]), bytes(cluster.secret).decode()]
    pages = [
        url(Cluster, "changelist"),
        url(Cluster, "change", cluster.pk),
        url(Cluster, "history", cluster.pk),
        url(AuditEntry, "changelist"),
        *[url(AuditEntry, "change", entry.pk) for entry in AuditEntry.objects.all()],
    ]
    for page in pages:
        shown = site.get(page).content.decode()
        assert not [text for text in texts if text in shown], page
    for entry in AuditEntry.objects.all():
        kept = f"{entry.before}{entry.after}{entry.why}"
        assert not [text for text in texts if text in kept]


def test_passwords_are_set_checked_and_never_shown(site: Client, ada: User) -> None:
    weak = {"username": "zoe", "is_active": "on", "password_1": "short", "password_2": "short"}
    assert errors_of(site.post(url(User, "add"), weak)) == ["__all__"]
    differ = {**weak, "password_1": PASSWORD}
    assert errors_of(site.post(url(User, "add"), differ)) == ["password_2"]
    assert not User.objects.filter(username="zoe").exists()
    good = {**weak, "password_1": PASSWORD, "password_2": PASSWORD}
    assert site.post(url(User, "add"), good).status_code == 302
    zoe = User.objects.get(username="zoe")
    assert Client().login(username="zoe", password=PASSWORD)
    other = "a quite different sentence"
    change = {"is_active": "on", "password_1": other, "password_2": other}
    assert site.post(url(User, "change", zoe.pk), change).status_code == 302
    assert Client().login(username="zoe", password=other)
    page = site.get(url(User, "change", zoe.pk)).content.decode()
    zoe.refresh_from_db()
    assert zoe.password not in page
    assert AuditEntry.objects.filter(action="set_password", object_id="zoe").count() == 1
    own = {**change, "is_superuser": "on"}
    assert site.post(url(User, "change", ada.pk), own).status_code == 302
    assert site.get(url(User, "changelist")).status_code == 200  # still signed in


def test_the_last_admin_stays_one(site: Client, ada: User) -> None:
    body = {"is_active": "on"}
    assert errors_of(site.post(url(User, "change", ada.pk), body)) == ["__all__"]
    ada.refresh_from_db()
    assert ada.is_superuser
    make.admin("bob")
    assert site.post(url(User, "change", ada.pk), body).status_code == 302


def test_tokens_are_listed_and_revoked_and_never_shown(site: Client) -> None:
    mia = make.person()
    token, text = create_token(
        actor=mia, user=mia, name="ci", scopes=["read"], expires_at=NOW + timedelta(30), now=NOW
    )
    listed = site.get(url(ApiToken, "changelist")).content.decode()
    page = site.get(url(ApiToken, "change", token.pk)).content.decode()
    assert token.prefix in listed
    assert text not in listed + page
    assert token.digest not in listed + page
    assert site.get(url(ApiToken, "add")).status_code == 403
    action = {"action": "revoke", "_selected_action": [str(token.pk)]}
    site.post(url(ApiToken, "changelist"), action)
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert AuditEntry.objects.filter(action="revoke", object_type="token").count() == 1


def test_tenants_are_closed_and_opened(site: Client) -> None:
    tenant = make.tenant("acme")
    for action, is_open in (("close", False), ("open", True)):
        body = {"action": action, "_selected_action": [str(tenant.pk)]}
        assert site.post(url(Tenant, "changelist"), body).status_code == 302
        tenant.refresh_from_db()
        assert tenant.is_open is is_open
        assert AuditEntry.objects.filter(action=action, object_type="tenant").count() == 1


def test_a_probe_that_fails_says_so(site: Client) -> None:
    cluster = make.cluster(endpoint="http://127.0.0.1:9")  # nobody listens there
    body = {"action": "probe_now", "_selected_action": [str(cluster.pk)]}
    page = site.post(url(Cluster, "changelist"), body, follow=True).content.decode()
    assert "aurora does not answer" in page
    assert not AuditEntry.objects.filter(action="probe").exists()


def test_what_is_refused_on_removal_is_told(site: Client) -> None:
    flavor, cluster = flavor_and_cluster()
    held = set_cluster_flavor(actor=None, cluster=cluster, flavor=flavor, device="h100", now=NOW)
    person, tenant = make.person(), make.tenant("acme")
    set_account(actor=None, cluster=cluster, user=person, account="mia", now=NOW)
    set_member(actor=None, tenant=tenant, user=person, role="viewer", now=NOW)
    quota = set_quota(actor=None, tenant=tenant, flavor=flavor, guaranteed=1, now=NOW)
    for row in (held, quota, *ClusterAccount.objects.all(), *Membership.objects.all()):
        assert site.post(url(type(row), "delete", row.pk), {"post": "yes"}).status_code == 302
        again = site.post(url(type(row), "delete", row.pk), {"post": "yes"})
        assert again.status_code == 302  # it is gone: a message, not a fault
