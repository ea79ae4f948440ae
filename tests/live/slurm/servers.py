"""The PostgreSQL and Valkey that `script/test` started for this run, to be killed by a test.

Whatever else DATABASE_URL and REDIS_URL may name belongs to others and is not touched.
"""

import contextlib
import os
import signal
from pathlib import Path

import redis
from django.conf import settings
from django.db import OperationalError, connection

from tests.stack import eventually


def kill_postgres() -> None:
    """Ends PostgreSQL without warning; its keeper starts it again."""
    pid = int((_data_directory() / "postmaster.pid").read_text().split()[0])
    connection.close()
    os.kill(pid, signal.SIGKILL)


def kill_valkey() -> None:
    """Ends Valkey without warning; its keeper starts it again, empty."""
    with contextlib.closing(_valkey()) as client:
        pid = int(client.info("server")["process_id"])
    os.kill(pid, signal.SIGKILL)


def until_postgres_answers() -> None:
    """Waits until it takes connections again."""
    eventually(_postgres_answers, within_s=120, what="PostgreSQL is back")


def until_valkey_answers() -> None:
    """Waits until it takes connections again."""
    eventually(_valkey_answers, within_s=120, what="Valkey is back")


def are_ours(lab: Path) -> bool:
    """Whether both were started by the run that also made this lab: they lie beside it."""
    with contextlib.closing(_valkey()) as client:
        broker = Path(str(client.config_get("dir")["dir"]))
    return all(path.is_relative_to(lab.parent) for path in (_data_directory(), broker))


def _data_directory() -> Path:
    with connection.cursor() as cursor:
        cursor.execute("SHOW data_directory")
        return Path(cursor.fetchone()[0])


def _valkey() -> redis.Redis:
    return redis.Redis.from_url(settings.ENVIRONMENT.redis_url, socket_timeout=5)


def _postgres_answers() -> bool:
    try:
        _data_directory()
    except OperationalError:
        connection.close()
        return False
    return True


def _valkey_answers() -> bool:
    try:
        with contextlib.closing(_valkey()) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
