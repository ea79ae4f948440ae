"""Configuration of the fleet: clusters, their secrets, flavors, people's accounts.

Every write is audited. A secret is encrypted before it is stored, and never returned, logged or
put into an audit entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from clusters.backends import BACKENDS, secret_fault
from clusters.core import configuration as rules
from clusters.core.options import option_problems
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor
from clusters.selectors.connection import configuration_etag, configuration_of
from clusters.selectors.fleet import locked_member
from clusters.services.fleet import close_breaker
from kit.crypto import encrypt
from kit.errors import ConflictError, FieldProblem, InvalidContentError, StaleWriteError
from tenancy.models import User
from tenancy.services.records import ring, write_audit

LONGEST_SECRET = 64 * 1024
LIMITS = {
    "calls_at_once": rules.MOST_CALLS_AT_ONCE,
    "calls_per_s": rules.MOST_CALLS_PER_S,
}


def refuse(problems: Iterator[FieldProblem]) -> None:
    """Raises InvalidContentError with everything that is wrong, if anything is."""
    found = list(problems)
    if found:
        raise InvalidContentError("The configuration is not valid.", errors=found)


def _backend_problems(backend: object) -> Iterator[FieldProblem]:
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        yield FieldProblem("/backend", "unknown_backend", f"No such backend. Known: {known}.")


def _configuration_problems(values: Mapping[str, Any]) -> Iterator[FieldProblem]:
    yield from rules.text_problems("/title", values["title"], 200)
    yield from _backend_problems(values["backend"])
    yield from rules.endpoint_problems("/endpoint", values["endpoint"])
    yield from rules.word_problems("/account", values["account"], rules.ACCOUNT)
    yield from option_problems("/options", values["options"], values["backend"])
    yield from rules.store_problems("/stores", values["stores"])
    for name, highest in LIMITS.items():
        yield from rules.limit_problems(f"/{name}", values[name], highest)


def cluster_problems(
    name: object, configured: Mapping[str, Any], secret: bytes
) -> Iterator[FieldProblem]:
    """Everything wrong with a new cluster; `configured` has every name of CONFIGURED."""
    yield from rules.cluster_name_problems("/name", name)
    yield from _configuration_problems(configured)
    yield from secret_problems(secret, configured["backend"], configured["endpoint"])


def secret_problems(secret: bytes, backend: str, endpoint: str) -> Iterator[FieldProblem]:
    """What is wrong with the secret of a cluster of this backend; it is never repeated."""
    if not 0 < len(secret) <= LONGEST_SECRET:
        yield FieldProblem(
            "/secret", "invalid_secret", f"Give the cluster's key: 1 to {LONGEST_SECRET} bytes."
        )
    elif backend in BACKENDS and (fault := secret_fault(backend, secret, str(endpoint))):
        yield FieldProblem("/secret", "invalid_secret", f"{fault[0].upper()}{fault[1:]}.")


@transaction.atomic
def create_cluster(
    *,
    actor: User | None,
    name: str,
    title: str = "",
    backend: str,
    endpoint: str,
    secret: bytes,
    account: str,
    options: Mapping[str, str] | None = None,
    stores: Sequence[str] = (),
    calls_at_once: int | None = None,
    calls_per_s: int | None = None,
    now: datetime,
) -> Cluster:
    """A new member cluster. Nothing is sent to it: `probe_cluster` looks whether it answers.

    Raises:
        InvalidContentError: names every field that is wrong.
        ConflictError: there is a cluster of that name.
    """
    configured: dict[str, Any] = {
        "title": title,
        "backend": backend,
        "endpoint": endpoint,
        "account": account,
        "options": dict(options or {}),
        "stores": list(stores),
        "calls_at_once": calls_at_once,
        "calls_per_s": calls_per_s,
    }

    refuse(cluster_problems(name, configured, secret))
    if Cluster.objects.filter(name=name).exists():
        raise ConflictError(f"There is a cluster {name} already.", pointer="/name")
    cipher = encrypt(secret, settings.ENVIRONMENT.encryption_keys)
    cluster = Cluster.objects.create(name=name, secret=cipher, **configured)
    write_audit(
        actor=actor,
        action="create",
        object_type="cluster",
        object_id=name,
        after=configured,
        now=now,
    )
    ring()
    return cluster


@transaction.atomic
def update_cluster(
    *,
    actor: User | None,
    cluster: Cluster,
    changes: Mapping[str, Any],
    expected_etag: str | None,
    now: datetime,
) -> Cluster:
    """Changes what is in CONFIGURED; the cluster as it is now.

    `expected_etag` is `configuration_etag` of the cluster that the caller saw; None = any.

    Raises:
        InvalidContentError: names every field that is wrong or cannot be changed.
        StaleWriteError: somebody changed the configuration since.
        NotFoundError: it left since the caller looked.
    """
    held = locked_member(cluster)
    if expected_etag not in (None, configuration_etag(held)):
        raise StaleWriteError(
            f"The configuration of {held.name} was changed since you read it; read it again."
        )
    before = configuration_of(held)

    def problems() -> Iterator[FieldProblem]:
        for name in sorted(changes.keys() - before.keys()):
            yield FieldProblem(f"/{name}", "unknown_field", "This cannot be changed here.")
        yield from _configuration_problems({**before, **changes})

    refuse(problems())
    changed = [name for name in before if name in changes and changes[name] != before[name]]
    if not changed:
        return held
    for name in changed:
        setattr(held, name, changes[name])
    held.revision += 1
    held.save(update_fields=[*changed, "revision"])
    write_audit(
        actor=actor,
        action="update",
        object_type="cluster",
        object_id=held.name,
        before={name: before[name] for name in changed},
        after={name: changes[name] for name in changed},
        now=now,
    )
    ring()
    return held


@transaction.atomic
def set_secret(*, actor: User | None, cluster: Cluster, secret: bytes, now: datetime) -> None:
    """Replaces the cluster's secret, and it is called again at once: the breaker is closed.

    The audit entry says that it was done, and no more.

    Raises:
        InvalidContentError: the secret is empty, too long, or not of the backend's form.
        NotFoundError: it left since the caller looked.
    """
    refuse(secret_problems(secret, cluster.backend, cluster.endpoint))
    locked_member(cluster)
    cipher = encrypt(secret, settings.ENVIRONMENT.encryption_keys)
    Cluster.objects.filter(pk=cluster.pk).update(secret=cipher, revision=F("revision") + 1)
    close_breaker(cluster_id=cluster.pk, now=now)
    write_audit(
        actor=actor,
        action="set_secret",
        object_type="cluster",
        object_id=cluster.name,
        now=now,
    )
    ring()


@transaction.atomic
def create_flavor(
    *,
    actor: User | None,
    name: str,
    vendor: str = "",
    memory_gb: int = 0,
    bf16_tflops: int = 0,
    now: datetime,
) -> Flavor:
    """A new GPU model of the catalogue: memory in GB, dense bf16 in teraflops; 0 = not known.

    Raises:
        InvalidContentError: names every field that is wrong.
        ConflictError: there is a flavor of that name.
    """
    facts: dict[str, Any] = {
        "vendor": vendor,
        "memory_gb": memory_gb,
        "bf16_tflops": bf16_tflops,
    }

    def problems() -> Iterator[FieldProblem]:
        yield from rules.name_problems("/name", name)
        yield from _flavor_problems(facts)

    refuse(problems())
    if Flavor.objects.filter(name=name).exists():
        raise ConflictError(f"There is a flavor {name} already.", pointer="/name")
    flavor = Flavor.objects.create(name=name, **facts)
    write_audit(
        actor=actor, action="create", object_type="flavor", object_id=name, after=facts, now=now
    )
    return flavor


def _flavor_problems(facts: Mapping[str, Any]) -> Iterator[FieldProblem]:
    yield from rules.text_problems("/vendor", facts["vendor"], 63)
    for name in ("memory_gb", "bf16_tflops"):
        yield from rules.whole_problems(f"/{name}", facts[name], rules.LARGEST_FACT)


@transaction.atomic
def update_flavor(
    *, actor: User | None, flavor: Flavor, changes: Mapping[str, Any], now: datetime
) -> Flavor:
    """Corrects the facts of a flavor. Its name never changes: jobs, quotas and prices bear it.

    Raises:
        InvalidContentError: names every field that is wrong or cannot be changed.
    """
    held = Flavor.objects.select_for_update().get(pk=flavor.pk)
    names = ("vendor", "memory_gb", "bf16_tflops")
    before: dict[str, Any] = {name: getattr(held, name) for name in names}

    def problems() -> Iterator[FieldProblem]:
        for name in sorted(changes.keys() - before.keys()):
            yield FieldProblem(f"/{name}", "unknown_field", "This cannot be changed.")
        yield from _flavor_problems({**before, **changes})

    refuse(problems())
    after = {
        name: changes[name] for name in names if changes.get(name, before[name]) != before[name]
    }
    if after:
        for name, value in after.items():
            setattr(held, name, value)
        held.save(update_fields=list(after))
        write_audit(
            actor=actor,
            action="update",
            object_type="flavor",
            object_id=held.name,
            before={name: before[name] for name in after},
            after=after,
            now=now,
        )
    return held


@transaction.atomic
def set_cluster_flavor(
    *,
    actor: User | None,
    cluster: Cluster,
    flavor: Flavor,
    device: str,
    queue: str = "",
    now: datetime,
) -> ClusterFlavor:
    """Says what a flavor is called on a cluster (GRES type) and which member queue serves it.

    Raises:
        InvalidContentError: names every field that is wrong.
        ConflictError: the device stands for another flavor there.
    """

    def problems() -> Iterator[FieldProblem]:
        yield from rules.device_problems("/device", device, cluster.backend)
        yield from rules.word_problems("/queue", queue, may_be_empty=True)

    refuse(problems())
    held = ClusterFlavor.objects.filter(cluster=cluster, flavor=flavor).first()
    before = {"device": held.device, "queue": held.queue} if held else None
    after = {"device": device, "queue": queue}
    if held and before == after:
        return held
    others = ClusterFlavor.objects.filter(cluster=cluster, device=device).exclude(flavor=flavor)
    if other := others.first():
        raise ConflictError(
            f"{device} stands for {other.flavor_id} on {cluster.name} already.",
            pointer="/device",
        )
    held, _ = ClusterFlavor.objects.update_or_create(cluster=cluster, flavor=flavor, defaults=after)
    _record(actor, cluster, "set_flavor", flavor.name, before, after, now)
    return held


@transaction.atomic
def remove_cluster_flavor(*, actor: User | None, held: ClusterFlavor, now: datetime) -> None:
    """Takes a flavor off a cluster: nothing new of it goes there; what runs goes on."""
    before = {"device": held.device, "queue": held.queue}
    if ClusterFlavor.objects.filter(pk=held.pk).delete()[0]:
        _record(actor, held.cluster, "remove_flavor", held.flavor_id, before, None, now)


@transaction.atomic
def set_account(
    *,
    actor: User | None,
    cluster: Cluster,
    user: User,
    account: str,
    home: str = "",
    run_as: str = "",
    now: datetime,
) -> ClusterAccount:
    """Says which UNIX account a person's jobs run as on a cluster, and its home directory.

    On Kubernetes: the namespace they run in, and `run_as` the user and group of their containers.

    Attempts that are bound already keep the account they were bound with.

    Raises:
        InvalidContentError: names every field that is wrong.
    """

    def problems() -> Iterator[FieldProblem]:
        yield from rules.person_account_problems("/account", account, cluster.backend)
        yield from rules.home_problems("/home", home)
        yield from rules.run_as_problems("/run_as", run_as, cluster.backend)

    refuse(problems())
    held = ClusterAccount.objects.filter(cluster=cluster, user=user).first()
    before = _account_facts(held) if held else None
    after = {"account": account, "home": home, "run_as": run_as}
    if held and before == after:
        return held
    held, _ = ClusterAccount.objects.update_or_create(cluster=cluster, user=user, defaults=after)
    _record(actor, cluster, "set_account", user.username, before, after, now)
    return held


def _account_facts(held: ClusterAccount) -> dict[str, str]:
    return {"account": held.account, "home": held.home, "run_as": held.run_as}


@transaction.atomic
def remove_account(*, actor: User | None, held: ClusterAccount, now: datetime) -> None:
    """Takes a person's account on a cluster away: new jobs of theirs cannot go there."""
    before = _account_facts(held)
    if ClusterAccount.objects.filter(pk=held.pk).delete()[0]:
        _record(actor, held.cluster, "remove_account", held.user.username, before, None, now)


def _record(
    actor: User | None,
    cluster: Cluster,
    action: str,
    subject: str,
    before: Mapping[str, object] | None,
    after: Mapping[str, object] | None,
    now: datetime,
) -> None:
    """What every change below a cluster does: a new revision, an audit entry, the doorbell."""
    Cluster.objects.filter(pk=cluster.pk).update(revision=F("revision") + 1)
    write_audit(
        actor=actor,
        action=action,
        object_type="cluster",
        object_id=cluster.name,
        before=None if before is None else {"subject": subject, **before},
        after=None if after is None else {"subject": subject, **after},
        now=now,
    )
    ring()
