"""The scene when things went wrong: every kind of case, on the clusters of `tests.pages.scene`."""

from datetime import timedelta
from typing import Any

from clusters.models import Cluster, Command, Lease, Node, Observation
from federation.models import Attempt, Job
from kit.intervals import to_ms
from tests.pages.scene import Scene, tell

MINUTE = timedelta(minutes=1)


def make(scene: Scene) -> None:
    """A lost attempt, an orphan, a duplicate, an ambiguous, a parked and a refused order.

    What answers was read an hour ahead, so that it does not fall silent while a slow test runs.
    """
    lose(scene)
    _see_odd_objects(scene)
    _delay_orders(scene)
    answering = Cluster.objects.filter(failing_since=None)
    answering.update(last_seen_at=scene.now + 60 * MINUTE, clock_skew_ms=1800)
    Lease.objects.create(
        cluster=scene.basalt, kind="dispatch", holder="w", failures=6,
        expires_at=scene.now + MINUTE,
    )  # fmt: skip


def lose(scene: Scene) -> Attempt:
    """The largest gang was found lost five minutes ago, with a node that does not answer."""
    attempt = Attempt.objects.get(job=scene.jobs["llm-pretrain-70b"])
    assert attempt.started_at is not None
    gpus = len(attempt.nodes) * attempt.gpus_per_node
    Attempt.objects.filter(pk=attempt.pk).update(
        state="lost", runs=[[to_ms(attempt.started_at), None, gpus]]
    )
    Job.objects.filter(pk=attempt.job_id).update(state="unknown")
    tell(attempt.job, "job.unknown", "lost", scene.now - 5 * MINUTE, cluster="alpine")
    _order(attempt, "submit", "done", scene.now - 90 * MINUTE)
    Node.objects.filter(cluster=scene.alpine, name=attempt.nodes[0]).update(state="up")
    return attempt


def _order(attempt: Attempt, kind: str, state: str, at: Any, **more: object) -> None:
    answered = at if state in {"done", "rejected"} else None
    Command.objects.create(
        key=f"{kind}:{attempt.pk}", cluster=attempt.cluster, kind=kind, fence=attempt.fence,
        payload={"v": 1, "account": attempt.account}, state=state, created_at=at, not_before=at,
        sent_at=at, answered_at=answered, tries=1, **more,
    )  # fmt: skip


def _see_odd_objects(scene: Scene) -> None:
    doubled = Attempt.objects.get(job=scene.jobs["asr-large"])
    _order(doubled, "submit", "done", scene.now - 60 * MINUTE, answer={"duplicates": 1})
    gangs = [
        _gang(doubled.fence, 4711, "running", doubled.account, scene),
        _gang(doubled.fence, 4719, "held", doubled.account, scene),
        _gang("mst-orphanorphan-a3", 4600, "running", "noor", scene),
    ]
    Observation.objects.filter(cluster=scene.alpine).update(gangs=gangs)


def _gang(fence: str, number: int, state: str, account: str, scene: Scene) -> dict[str, object]:
    return {
        "fence": fence, "backend_id": str(number), "state": state,
        "reason": "JobHeldUser" if state == "held" else "", "account": account,
        "nodes": ["a006", "a007"] if state == "running" else [], "gpus": 16,
        "submitted_ms": to_ms(scene.now - 40 * MINUTE), "started_ms": None, "ended_ms": None,
        "exit_code": None, "comment": f"muster:{fence}", "runs": [],
    }  # fmt: skip


def _delay_orders(scene: Scene) -> None:
    pending = Attempt.objects.get(job=scene.jobs["diffusion-xl"])
    _order(pending, "submit", "sent", scene.now - 8 * MINUTE, error="read timed out")
    refused = Attempt.objects.get(job=scene.jobs["vit-huge"])
    Job.objects.filter(pk=refused.job_id).update(state="stopping", cancel_asked_at=scene.now)
    Attempt.objects.filter(pk=refused.pk).update(state="stopping")
    _order(
        refused, "cancel", "rejected", scene.now - 12 * MINUTE,
        error="Access/permission denied (2002)",
    )  # fmt: skip
    theirs = Attempt.objects.get(job=scene.jobs["theirs-secret"])
    _order(theirs, "signal", "waiting", scene.now - 3 * MINUTE, error="connection refused")
