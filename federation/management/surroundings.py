"""What `manage.py doctor` asks of what stands around the database: settings, the direct address,
the broker and its queues, disks. Nothing here waits longer than a few seconds.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
from django.conf import settings
from redis import Redis

from federation.management.examination import Visit
from kit.findings import Finding, Level, graded

WAIT_S = 3
CHANNEL = "muster_doctor"
LOCK = (0x6D7374, 0x646F63)
SAMPLE = "change-me"
GIB = 2**30


def secrets_known() -> list[str]:
    """What may not be shown: every password and key of the settings."""
    environment = settings.ENVIRONMENT
    addresses = (
        environment.database_url,
        environment.redis_url,
        settings.DATABASE_DIRECT_URL,
        settings.CELERY_BROKER_URL,
    )
    passwords = [urlsplit(address).password or "" for address in addresses]
    return [
        environment.secret_key,
        *environment.encryption_keys,
        *passwords,
        *map(unquote, passwords),
    ]


def configuration(visit: Visit) -> Iterator[Finding]:
    """Settings that are legal and still wrong in production."""
    environment = settings.ENVIRONMENT
    doubts = {
        "MUSTER_DEBUG is on: error pages show the code": (
            environment.debug,
            "Unset MUSTER_DEBUG.",
        ),
        "cookies travel over plain HTTP as well": (
            not environment.secure_cookies,
            "Unset MUSTER_SECURE_COOKIES once TLS stands in front.",
        ),
        "the service answers to any host name": (
            "*" in environment.allowed_hosts,
            "Name the hosts in MUSTER_ALLOWED_HOSTS.",
        ),
        "the database has the example's password": (
            urlsplit(environment.database_url).password == SAMPLE,
            "Give the role a password of its own.",
        ),
        "a lease is shorter than a call to a cluster": (
            environment.lease_ms <= environment.backend_timeout_ms,
            "Make MUSTER_LEASE_MS larger than MUSTER_BACKEND_TIMEOUT_MS.",
        ),
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, and what traces need is not installed": (
            settings.TRACES_WANTED and not settings.TRACES,
            "pip install -r requirements-traces.txt, or unset it.",
        ),
    }
    found = [(words, fix) for words, (is_so, fix) in doubts.items() if is_so]
    for words, fix in found:
        yield Finding("settings", Level.WARNING, words, fix)
    if not found:
        yield Finding("settings", Level.OK, "nothing doubtful")


def direct(visit: Visit) -> Iterator[Finding]:
    """Whether LISTEN and session locks work at the direct address (a pooler breaks both)."""
    fix = "Give DATABASE_DIRECT_URL the address of the server itself, not of a pooler."
    with psycopg.connect(
        settings.DATABASE_DIRECT_URL, autocommit=True, connect_timeout=WAIT_S
    ) as own:
        own.execute(f"LISTEN {CHANNEL}")
        own.execute(f"NOTIFY {CHANNEL}")
        heard = bool(list(own.notifies(timeout=WAIT_S, stop_after=1)))
        yield _works("direct LISTEN", heard, "notices arrive", "a notice did not arrive", fix)
        own.execute("SELECT pg_advisory_lock_shared(%s, %s)", LOCK)
        row = own.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND pid = pg_backend_pid() AND classid = %s AND objid = %s",
            LOCK,
        ).fetchone()
        held = bool(row and row[0])
        yield _works("direct locks", held, "session locks hold", "a session lock was lost", fix)


def _works(what: str, does: bool, well: str, ill: str, fix: str) -> Finding:  # noqa: FBT001
    return Finding(what, Level.OK, well) if does else Finding(what, Level.ERROR, ill, fix)


def broker(visit: Visit) -> Iterator[Finding]:
    """The broker answers, refuses rather than drops when full, and has room; then its queues."""
    with Redis.from_url(
        settings.CELERY_BROKER_URL, socket_connect_timeout=WAIT_S, socket_timeout=WAIT_S
    ) as client:
        memory = client.info("memory")
        depths = {queue: int(client.llen(queue)) for queue in settings.QUEUES}
    yield Finding("broker", Level.OK, f"answers, {int(memory['used_memory']) >> 20} MiB in use")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        yield Finding("broker policy", Level.OK, "noeviction")
    else:
        words = f"{policy}: when it is full it drops messages"
        yield Finding("broker policy", Level.WARNING, words, "Set maxmemory-policy noeviction.")
    limit = int(memory.get("maxmemory") or 0)
    if limit:
        share = int(memory["used_memory"]) / limit
        fix = "Raise maxmemory, or find the queue that nobody reads."
        words = f"{share:.0%} of maxmemory"
        yield graded("broker memory", words, share, warning=0.8, error=0.95, fix=fix)
    for queue, depth in depths.items():
        fix = f"Is a worker of this queue running? python -m config.worker {queue} ..."
        yield graded(
            f"queue {queue}", f"{depth} messages wait", depth, warning=1_000, error=10_000, fix=fix
        )


def disks(visit: Visit) -> Iterator[Finding]:
    """Room where this process writes."""
    for path in dict.fromkeys((settings.BASE_DIR, Path(tempfile.gettempdir()))):
        usage = shutil.disk_usage(path)
        words = f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f}"
        used = usage.used / usage.total if usage.total else 0
        fix = "Make room: logs and state stop when the disk is full."
        yield graded(f"disk {path}", words, used, warning=0.9, error=0.98, fix=fix)
