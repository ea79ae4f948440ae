"""The whole stack with JSON logs: a job is followed from its submit to its end by its id."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from federation.models import Attempt, Job
from tests.config.otlp import Spans, receiver
from tests.stack import Stack, eventually, started
from tests.world import World, make_world, simulated

PROCESSES = ("web", "arbiter", "worker-dispatch", "worker-observe", "beat")
REQUEST_ID = "from-a-caller-0001"


@pytest.fixture
def world(tmp_path: Path, transactional_db: None) -> Iterator[World]:
    with simulated(tmp_path, aurora={"nodes": 2, "gpu_type": "h100"}) as clusters:
        yield make_world(clusters, {"aurora": ("h100", "h100-sxm-80")})


def lines(stack: Stack, process: str) -> list[dict[str, Any]]:
    """The JSON lines of a process. Before Django is set up, servers greet in their own words."""
    texts = [text for text in stack.log(process).splitlines() if text.startswith("{")]
    return [json.loads(text) for text in texts]


def about(stack: Stack, job: str) -> dict[str, list[dict[str, Any]]]:
    """Of each process, the lines that bear the job's id."""
    return {
        process: [line for line in lines(stack, process) if job in json.dumps(line)]
        for process in PROCESSES
    }


def test_a_job_is_found_in_every_log_by_its_id_and_no_secret_is(
    world: World, tmp_path: Path
) -> None:
    with receiver() as spans, started(tmp_path, *PROCESSES, environment=told_to(spans)) as stack:
        web = f"http://127.0.0.1:{stack.layout.web_port}"
        eventually(lambda: ready(web), within_s=240, what="web is ready")
        answer = httpx.post(
            f"{web}/api/v1/jobs",
            json=world.body(seconds=1),
            headers={"Authorization": f"Bearer {world.token}", "X-Request-Id": REQUEST_ID},
            timeout=30,
        )
        assert (answer.status_code, answer.headers["X-Request-Id"]) == (201, REQUEST_ID)
        job = answer.json()["id"]
        row = Job.objects.filter(uuid=job, state="succeeded")
        eventually(row.exists, within_s=240, what="the job is over")
        eventually(lambda: whole_way(spans, job), within_s=60, what="the traces came")
        found = about(stack, job)
        logs = "".join(stack.log(process) for process in PROCESSES)
    attempt = Attempt.objects.get(job__uuid=job)

    (queued,) = found["web"]
    assert queued["message"] == "job.queued (submitted)"
    assert (queued["process"], queued["request_id"]) == ("web", REQUEST_ID)
    (bound,) = found["arbiter"]
    assert bound["message"] == "job.dispatching (bound)"
    assert (bound["job"], bound["fence"], bound["cluster"]) == (job, attempt.fence, "aurora")
    told = [*found["worker-dispatch"], *found["worker-observe"]]
    assert {line["message"].split()[0] for line in told} >= {"job.pending", "job.succeeded"}
    assert all(line["cluster"] == "aurora" and line["task_id"] for line in told)
    assert {line["cluster_id"] for line in told} == {str(attempt.cluster_id)}

    secrets = (world.token, settings.SECRET_KEY, *settings.ENVIRONMENT.encryption_keys)
    assert not [secret for secret in secrets if secret in logs]
    assert world.simulated["aurora"].key.hex() not in logs


def told_to(spans: Spans) -> dict[str, str]:
    return {
        "MUSTER_LOG_FORMAT": "json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": spans.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }


def whole_way(spans: Spans, job: str) -> bool:
    """Whether every change of the job is told in a trace, below what the process was doing."""
    own = [span for span in spans.of("muster.job", job) if span.parent]
    (asked,) = [span for span in spans.all if span.name == "POST api/v1/jobs"] or [None]
    queries = {span.service for span in spans.all if span.attributes.get("db.system")}
    return (
        asked is not None
        and any(span.trace == asked.trace for span in own)
        and {span.name.split()[0] for span in own}
        >= {"job.dispatching", "job.pending", "job.succeeded"}
        and any(span.service == "muster-arbiter" for span in spans.of("muster.fence", "mst-"))
        and any(span.name == "run/federation.tasks.observe" and span.parent for span in spans.all)
        and queries >= {"muster-web", "muster-arbiter", "muster-worker-dispatch"}
    )


def ready(web: str) -> bool:
    try:
        return httpx.get(f"{web}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
