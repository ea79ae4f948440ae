"""`manage.py seed_demo --state DIR`: the demo organisation and its simulated clusters.

What is missing is made; what is there, and what people changed since, stays as it is. Secrets are
random, made once, and kept in DIR where only its owner can read them.
"""

import json
import os
import secrets
import socket
from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from accounting.models import Price
from accounting.services.prices import PriceScope, set_price
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor
from clusters.selectors.connection import configuration_etag, connection_of
from clusters.services.configure import (
    create_cluster,
    create_flavor,
    set_account,
    set_cluster_flavor,
    set_secret,
    update_cluster,
)
from federation.management import demo_world as world
from kit.crypto import UndecryptableError
from quotas.models import Quota
from quotas.services.rows import set_quota
from tenancy.models import Membership, Tenant, User
from tenancy.selectors.access import token_principal
from tenancy.services.access import create_tenant, create_token, set_member
from tenancy.services.people import create_person, set_password

FIRST_PORT = 16820
TOKEN_LIFE = timedelta(days=365)
TOKEN_RESERVE = timedelta(days=7)


class Command(BaseCommand):
    """Makes the demo's rows and files; a second run changes nothing."""

    help = "Makes the demo organisation: people, quotas, prices, simulated clusters."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where the files go, and the simulators' ports."""
        parser.add_argument("--state", type=Path, required=True, help="directory of the demo")
        parser.add_argument(
            "--simulator-port-base",
            type=int,
            default=0,
            help="port of the first simulated cluster; default: those of before, or free ones",
        )

    def handle(self, *, state: Path, simulator_port_base: int, **_: object) -> None:
        """Writes the files, then the rows in one transaction."""
        state = state.resolve()
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = choose_ports(state / "simulator.json", simulator_port_base)
        keys = {
            one.name: keep_key(state / f"{one.name}.key", one.backend) for one in world.CLUSTERS
        }
        config = world.simulator_config(str(state), ports, keys)
        write_private_json(state / "simulator.json", config)
        with transaction.atomic():
            logins = seed(keys, ports, read_json(state / "people.json"), timezone.now())
        write_private_json(state / "people.json", logins)
        first = {"url_path": "/", "username": world.ADMIN.username}
        write_private_json(state / "login.json", {**first, **logins[world.ADMIN.username]})
        self.stdout.write(f"The demo's organisation {world.ORGANISATION} is there.")


def seed(
    keys: Mapping[str, bytes], first_port: int, kept: Mapping[str, Any], now: datetime
) -> dict[str, dict[str, str]]:
    """Makes what is missing; the logins (`password`, `token`) by username."""
    people = {person.username: ensure_person(person, kept, now) for person in world.PEOPLE}
    tenants = {
        tenant.path: ensure_tenant(tenant.path, tenant.title, now) for tenant in world.TENANTS
    }
    for person in world.PEOPLE:
        if person.role:
            ensure_member(tenants[person.tenant], people[person.username][0], person.role, now)
    flavors = {flavor.name: ensure_flavor(flavor, now) for flavor in world.FLAVORS}
    for tenant in world.TENANTS:
        ensure_quotas(tenants[tenant.path], tenant.quotas, flavors, now)
    workers = [people[person.username][0] for person in world.PEOPLE if person.charges]
    for number, cluster in enumerate(world.CLUSTERS):
        held = ensure_cluster(cluster, keys[cluster.name], first_port + number, now)
        ensure_cluster_flavor(held, flavors[cluster.flavor], cluster.device_there, now)
        for user in workers:
            ensure_account(held, user, now)
    return {name: login for name, (_, login) in people.items()}


def ensure_person(
    person: world.DemoPerson, kept: Mapping[str, Any], now: datetime
) -> tuple[User, dict[str, str]]:
    """The person, with the password and token that DIR remembers as far as they are still good."""
    remembered = kept.get(person.username, {})
    password = remembered.get("password") or secrets.token_urlsafe(12)
    user = User.objects.filter(username=person.username).first()
    if user is None:
        user = create_person(
            actor=None,
            username=person.username,
            password=password,
            first_name=person.first_name,
            is_admin=person.is_admin,
            now=now,
        )
    elif "password" not in remembered:
        set_password(actor=None, user=user, password=password, now=now)
    return user, {"password": password, "token": ensure_token(user, remembered.get("token"), now)}


def ensure_token(user: User, token: str | None, now: datetime) -> str:
    """The remembered token if it is good for another week, else a new one."""
    found = token_principal(token, now + TOKEN_RESERVE) if token else None
    if token and found and found.user == user:
        return token
    scopes = world.SCOPES if user.is_superuser else ("read", "submit")
    _, text = create_token(
        actor=user, user=user, name="demo", scopes=scopes, expires_at=now + TOKEN_LIFE, now=now
    )
    return text


def ensure_tenant(path: str, title: str, now: datetime) -> Tenant:
    """The tenant; its parent is there already."""
    held = Tenant.objects.filter(path=path).first()
    if held:
        return held
    above, _, name = path.rpartition("/")
    parent = Tenant.objects.get(path=above) if above else None
    return create_tenant(actor=None, name=name, parent=parent, title=title, now=now)


def ensure_member(tenant: Tenant, user: User, role: str, now: datetime) -> None:
    """The person's role, unless they have one there."""
    if not Membership.objects.filter(tenant=tenant, user=user).exists():
        set_member(actor=None, tenant=tenant, user=user, role=role, now=now)


def ensure_flavor(flavor: world.DemoFlavor, now: datetime) -> Flavor:
    """The flavor and its two prices."""
    held = Flavor.objects.filter(name=flavor.name).first() or create_flavor(
        actor=None,
        name=flavor.name,
        vendor=flavor.vendor,
        memory_gb=flavor.memory_gb,
        bf16_tflops=flavor.bf16_tflops,
        now=now,
    )
    for name, nano in (("guaranteed", flavor.guaranteed_nano), ("spot", flavor.spot_nano)):
        if not Price.objects.filter(flavor=held, service_class=name).exists():
            set_price(
                actor=None,
                scope=PriceScope(flavor.name, name),
                nano_per_gpu_hour=nano,
                currency=world.CURRENCY,
                effective_from=world.PRICES_SINCE,
                now=now,
            )
    return held


def ensure_quotas(
    tenant: Tenant,
    quotas: Mapping[str, tuple[int, int | None]],
    flavors: Mapping[str, Flavor],
    now: datetime,
) -> None:
    """The tenant's quotas, where it has none of the flavor."""
    held = set(Quota.objects.filter(tenant=tenant).values_list("flavor", flat=True))
    for name, (guaranteed, limit) in quotas.items():
        if name not in held:
            set_quota(
                actor=None,
                tenant=tenant,
                flavor=flavors[name],
                guaranteed=guaranteed,
                borrowing_limit=limit,
                now=now,
            )


def ensure_cluster(cluster: world.DemoCluster, key: bytes, port: int, now: datetime) -> Cluster:
    """The cluster, at the port and with the key that its simulator has now."""
    endpoint = f"http://127.0.0.1:{port}"
    held = Cluster.objects.filter(name=cluster.name).first()
    if held is None:
        return create_cluster(
            actor=None,
            name=cluster.name,
            title=cluster.title,
            backend=cluster.backend,
            endpoint=endpoint,
            secret=key,
            account="slurm",
            options=cluster.options(),
            stores=cluster.stores,
            now=now,
        )
    if not has_secret(held, key):
        set_secret(actor=None, cluster=held, secret=key, now=now)
    changes: dict[str, Any] = {"endpoint": endpoint}
    if held.backend != cluster.backend:  # a demo of before: what was said of it is of another kind
        changes |= {"backend": cluster.backend, "options": cluster.options()}
        ClusterFlavor.objects.filter(cluster=held).delete()
        ClusterAccount.objects.filter(cluster=held).delete()
    return update_cluster(
        actor=None,
        cluster=held,
        changes=changes,
        expected_etag=configuration_etag(held),
        now=now,
    )


def has_secret(cluster: Cluster, key: bytes) -> bool:
    """Whether the stored secret is this key; one that cannot be decrypted is not."""
    try:
        return secrets.compare_digest(connection_of(cluster).secret, key)
    except UndecryptableError:
        return False


def ensure_cluster_flavor(cluster: Cluster, flavor: Flavor, device: str, now: datetime) -> None:
    """The flavor's name there, unless it has one."""
    if not ClusterFlavor.objects.filter(cluster=cluster, flavor=flavor).exists():
        set_cluster_flavor(actor=None, cluster=cluster, flavor=flavor, device=device, now=now)


def ensure_account(cluster: Cluster, user: User, now: datetime) -> None:
    """The person's UNIX account or namespace there, unless they have one."""
    if not ClusterAccount.objects.filter(cluster=cluster, user=user).exists():
        name = user.username
        home = f"/home/{name}" if cluster.backend == "slurm" else ""
        set_account(actor=None, cluster=cluster, user=user, account=name, home=home, now=now)


def choose_ports(config: Path, wanted: int) -> int:
    """The first of the simulators' ports: as wanted, else as before, else free ones.

    Raises:
        CommandError: no free ports.
    """
    if wanted:
        return wanted
    before = [cluster["port"] for cluster in read_json(config).get("clusters", ())]
    candidates = [*before[:1], *range(FIRST_PORT, 65_000, 100)]
    for first in candidates:
        if all(is_free(first + number) for number in range(len(world.CLUSTERS))):
            return int(first)
    raise CommandError("No free ports for the simulated clusters on 127.0.0.1.")


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1 there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def keep_key(path: Path, backend: str) -> bytes:
    """The cluster's JWT key, 32 random bytes, or (Volcano) a random token; made once."""
    is_token = backend == "volcano"
    if not path.exists() or (is_token and not path.read_bytes().isascii()):
        key = secrets.token_urlsafe(32).encode() if is_token else secrets.token_bytes(32)
        write_private(path, key)
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of ours; empty when there is none."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write_private_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes the file unless it says so already."""
    text = json.dumps(value, indent=1).encode()
    if not path.exists() or path.read_bytes() != text:
        write_private(path, text)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)
