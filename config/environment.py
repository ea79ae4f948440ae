"""Settings from the environment, as one typed value. An unknown `MUSTER_*` stops the start.

Every variable may be given as `NAME_FILE` holding the path of a file with the value (for secrets).
`.env.example` lists them all; a test keeps it complete.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any

from environs import Env, EnvError, FileAwareEnv


class BadEnvironmentError(RuntimeError):
    """The environment is not usable; the message names the variable and the fix."""


@dataclass(frozen=True)
class Environment:
    """Every setting that the environment carries. Policy (limits, graces) lives in tables.

    Attributes (environment names are these in capitals, with `MUSTER_` unless noted):
        database_url: DATABASE_URL, where queries go (may be a pooler).
        database_direct_url: DATABASE_DIRECT_URL, for session locks and LISTEN; default the former.
        redis_url: REDIS_URL, the Celery broker.
        secret_key: signs sessions; at least 32 characters.
        encryption_keys: Fernet keys for stored credentials, newest first, comma-separated.
        allowed_hosts: host names the service answers to, comma-separated.
        public_url: where jobs reach the service (`https://muster.example`); "" = they cannot.
        trusted_origins: origins accepted for CSRF, comma-separated (`https://muster.example`).
        debug: developer error pages; never in production.
        secure_cookies: cookies only over HTTPS.
        web_upstream: where the stream process forwards what is not an event stream; "" = nowhere.
        log_level: INFO, DEBUG, WARNING or ERROR.
        log_format: `text` for people, `json` for programs: one object a line.
        test_db: name of the test database; tests only.
        rate_reads: most reads a minute with one token or session; 0 = no limit.
        rate_writes: the same of what changes something.
        rate_tenant_jobs: most jobs a minute submitted to one tenant; 0 = no limit.
        keep_events_days: how long events are kept, at least; at most a month longer.
        keep_decisions_days: the same of the arbiter's decisions.
        keep_orders_days: how long answered orders are kept; 0 = for ever.
        keep_jobs_days: how long jobs that ended are kept, with their attempts; 0 = for ever.
        arbiter_interval_ms: longest sleep between two cycles.
        lease_ms: life of a dispatch or observe lease; its holder renews it at a third of that.
        observe_interval_ms: how old an observation may be before the cluster is read again.
        backend_timeout_ms: deadline of one call to a member cluster.
        calls_at_once: most calls in flight to one cluster.
        silent_after_ms: age of a cluster's last reading after which nothing new is bound to it.
    """

    database_url: str
    database_direct_url: str
    redis_url: str
    secret_key: str
    encryption_keys: tuple[str, ...]
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    trusted_origins: tuple[str, ...] = ()
    public_url: str = ""
    debug: bool = False
    secure_cookies: bool = True
    web_upstream: str = ""
    log_level: str = "INFO"
    log_format: str = "text"
    test_db: str = ""
    rate_reads: int = 12_000
    rate_writes: int = 12_000
    rate_tenant_jobs: int = 60_000
    keep_events_days: int = 90
    keep_decisions_days: int = 90
    keep_orders_days: int = 30
    keep_jobs_days: int = 0
    arbiter_interval_ms: int = 1_000
    lease_ms: int = 15_000
    observe_interval_ms: int = 2_000
    backend_timeout_ms: int = 10_000
    calls_at_once: int = 4
    silent_after_ms: int = 15_000


# Read by test and demo scripts, not by the service.
OTHER_VARIABLES = frozenset(
    {
        "MUSTER_LIVE_KUBERNETES",
        "MUSTER_LIVE_SLURM",
        "MUSTER_KILL_SECONDS",
        "MUSTER_KILL_SEED",
        "MUSTER_JOB_TOKEN",
        "MUSTER_TRACES",
    }
)
_ADDRESS = re.compile(r"https?://[^\s/?#]+(?:/[^\s?#]*[^\s?#/])?")
LOG_FORMATS = ("text", "json")
UNPREFIXED = ("database_url", "database_direct_url", "redis_url")


def _variable(name: str) -> str:
    return name.upper() if name in UNPREFIXED else f"MUSTER_{name.upper()}"


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = {_variable(field.name) for field in fields(Environment)} | OTHER_VARIABLES
    for name in sorted(environ):
        if name.startswith("MUSTER_") and name.removesuffix("_FILE") not in known:
            raise BadEnvironmentError(
                f"{name} is not a setting of Muster. Remove it, or see .env.example for the names."
            )


def _read(env: Env, field: Field[object], default: object) -> object:
    options: dict[str, Any] = {} if default is MISSING else {"default": default}
    name = _variable(field.name)
    if field.type is bool:
        return env.bool(name, **options)
    if field.type is int:
        return env.int(name, **options)
    if field.type is str:
        return env.str(name, **options)
    return tuple(env.list(name, **options))


def read_environment(environ: Mapping[str, str]) -> Environment:
    """The typed settings.

    Raises:
        BadEnvironmentError: a variable is missing, unreadable, unknown or too weak.
    """
    _refuse_unknown(environ)
    env = FileAwareEnv(strip_whitespace=True)  # files tend to end with a line feed
    values: dict[str, object] = {}
    try:
        for field in fields(Environment):
            is_direct = field.name == "database_direct_url"
            default = values["database_url"] if is_direct else field.default
            values[field.name] = _read(env, field, default)
    except (EnvError, ValueError, OSError) as error:
        raise BadEnvironmentError(f"{error}. See .env.example.") from None
    settings = Environment(**values)  # type: ignore[arg-type]
    if len(settings.secret_key) < 32:
        raise BadEnvironmentError(
            "MUSTER_SECRET_KEY has fewer than 32 characters; make a longer one."
        )
    if not settings.encryption_keys:
        raise BadEnvironmentError("MUSTER_ENCRYPTION_KEYS is empty; give at least one Fernet key.")
    _refuse_out_of_range(settings)
    return settings


def _refuse_out_of_range(settings: Environment) -> None:
    if settings.public_url and not _ADDRESS.fullmatch(settings.public_url):
        raise BadEnvironmentError("MUSTER_PUBLIC_URL is an address like https://muster.example.")
    if settings.log_format not in LOG_FORMATS:
        raise BadEnvironmentError(f"MUSTER_LOG_FORMAT is one of {', '.join(LOG_FORMATS)}.")
    for name in ("keep_events_days", "keep_decisions_days"):
        if getattr(settings, name) < 1:
            raise BadEnvironmentError(f"{_variable(name)} is at least 1.")
    for name in (
        *("rate_reads", "rate_writes", "rate_tenant_jobs"),
        *("keep_orders_days", "keep_jobs_days"),
    ):
        if getattr(settings, name) < 0:
            raise BadEnvironmentError(f"{_variable(name)} is 0 (no limit) or more.")


def version() -> str:
    """The version of this checkout, from pyproject.toml (the one place that names it)."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    line = next(row for row in text.splitlines() if row.startswith("version = "))
    return line.split('"')[1]
