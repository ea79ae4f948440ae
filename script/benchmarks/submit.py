"""Jobs taken in over HTTP: authentication, validation, rows, events; batches of 200 and singly.

A gunicorn of its own serves the requests of this process. CPU is of gunicorn and of its PostgreSQL
backends; the client, which is this process, is not counted. The body is the whole one of the API's
reference, against four clusters of 1,024 nodes and a price book.
"""

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from script.benchmarks import backend_cpu_s, report, scratch_database

SEED = 20_262
FLAVORS = ("h100-sxm-80", "a100-sxm-80")
BATCH, BATCHES, SINGLES = 200, 10, 200
QUERIES_HEADER = "X-Queries"


def body(number: int) -> dict[str, Any]:
    """A job with nearly every field."""
    return {
        "name": f"llm-train-{number}",
        "tenant": "acme/team-0",
        "class": "auto",
        "priority": "normal",
        "flavors": list(FLAVORS),
        "gang": {
            "nodes": 16,
            "gpus_per_node": 8,
            "cpus_per_gpu": 8,
            "memory_per_node": "900Gi",
            "start_timeout": 300,
            "max_restarts": 3,
        },
        "topology": {"required": "spine", "preferred": "leaf"},
        "parallelism": {"tp": 8, "pp": 4, "dp": 4, "global_batch": 1024, "micro_batch": 1},
        "time_limit": "72:00:00",
        "checkpoint": {"signal": "USR1", "grace": 120, "interval": 1800},
        "run": {
            "script": "#!/bin/bash\n" + "srun torchrun --nnodes 16 train.py --lr 3e-4\n" * 20,
            "workdir": "/home/mia/run7",
            "output": "run7-%j.out",
        },
        "environment": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8"},
        "labels": {"experiment": f"a{number % 17}"},
    }


def seed() -> str:
    """People, tenants, prices, clusters; the text of a token."""
    from script.benchmarks import _cycle_rows as rows
    from tenancy.models import Role
    from tenancy.services.access import create_token, set_member

    now = datetime.now(UTC)  # noqa: TID251 (the edge)
    people = rows.people_and_tenants(50, FLAVORS, now)
    rows.clusters(4, 1_024, FLAVORS, people, random.Random(SEED), now)  # noqa: S311
    user, tenant = people[0]
    set_member(actor=None, tenant=tenant, user=user, role=Role.SUBMITTER, now=now)
    _, text = create_token(
        actor=user,
        user=user,
        name="bench",
        scopes=["read", "submit"],
        expires_at=now + timedelta(days=1),
        now=now,
    )
    return text


@contextmanager
def served(database: str, directory: Path) -> Iterator[tuple[http.client.HTTPConnection, int]]:
    """A gunicorn over the scratch database: a connection to it, and its worker's process id."""
    socket = directory / "web.sock"
    environment = {**os.environ, "DATABASE_URL": database}
    environment.pop("MUSTER_TEST_DB", None)
    command = [
        "-m", "gunicorn", "config.wsgi:application", "--worker-class", "gthread",
        "--workers", "1", "--threads", "1", "--keep-alive", "60", "--bind", f"unix:{socket}",
        "--log-level", "warning",
    ]  # fmt: skip
    process = subprocess.Popen([sys.executable, *command], env=environment)
    try:
        connection = _UnixConnection(str(socket))
        for _ in range(600):
            if socket.exists():
                break
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text().split():
            time.sleep(0.05)
        yield connection, int(children.read_text().split()[0])
    finally:
        process.terminate()
        process.wait(20)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket, so that no port is needed."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        import socket

        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


def thread_cpu_s(pid: int) -> float:
    """CPU seconds of every thread of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def backends(database: str) -> list[int]:
    """Process ids of the other connections to the database."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
            [database],
        )
        return [row[0] for row in cursor.fetchall()]


def queries_of(jobs: int, token: str) -> int:
    """Queries of one batch request, counted in this process; the fleet is known already."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    text = json.dumps({"jobs": [body(number) for number in range(jobs)]})
    headers = {"Authorization": f"Bearer {token}", "Host": "localhost"}
    client = Client()
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            answer = client.post(
                "/api/v1/jobs/batch", text, content_type="application/json", headers=headers
            )
        if answer.status_code != 201:
            raise RuntimeError(answer.content[:2000])
    return len(queries)


def send_all(
    connection: http.client.HTTPConnection, path: str, texts: Iterable[str], token: str
) -> None:
    """`send` for each of the texts, one after the other."""
    for text in texts:
        send(connection, path, text, token)


def send(connection: http.client.HTTPConnection, path: str, text: str, token: str) -> None:
    """One request that must create."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", path, text, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 201:
        raise RuntimeError(content[:2000])


def main() -> None:
    """Measure and print."""
    with scratch_database(), tempfile.TemporaryDirectory(prefix="muster-submit-") as directory:
        from django.conf import settings
        from django.db import connection

        token = seed()
        name = connection.settings_dict["NAME"]
        url = settings.ENVIRONMENT.database_url.rpartition("/")[0] + f"/{name}"
        queries = {jobs: queries_of(jobs, token) for jobs in (1, 1_000)}
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        with served(url, Path(directory)) as (web, pid):

            def spent_ms(act: Callable[[], None]) -> float:
                pids = backends(name)
                before = thread_cpu_s(pid) + sum(map(backend_cpu_s, pids))
                act()
                return (thread_cpu_s(pid) + sum(map(backend_cpu_s, pids)) - before) * 1000

            batches = [
                json.dumps({"jobs": [body(BATCH * turn + number) for number in range(BATCH)]})
                for turn in range(BATCHES)
            ]
            singles = [json.dumps(body(number)) for number in range(SINGLES)]
            send(web, "/api/v1/jobs/batch", batches[0], token)  # warm: code, fleet, plans
            send(web, "/api/v1/jobs", singles[0], token)
            batch_ms = spent_ms(lambda: send_all(web, "/api/v1/jobs/batch", batches, token))
            single_ms = spent_ms(lambda: send_all(web, "/api/v1/jobs", singles, token))
    report(
        "submit",
        {
            "cpu_ms_per_job_batch": round(batch_ms / (BATCH * BATCHES), 3),
            "cpu_ms_per_job_single": round(single_ms / SINGLES, 3),
            "queries_1": queries[1],
            "queries_1000": queries[1_000],
        },
        {"batch": BATCH, "batches": BATCHES, "singles": SINGLES, "seed": SEED},
    )


if __name__ == "__main__":
    main()
