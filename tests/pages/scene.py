"""A scene for pages: three clusters, an organisation and a rival, gangs in every state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import make_password
from django.utils import timezone

from accounting.models import Price, UsageInterval
from clusters.models import Cluster, ClusterFlavor, Flavor, Node, Observation
from federation.models import ArbiterTerm, Attempt, Job, Telling
from kit.ids import fence, new_id
from kit.intervals import to_ms
from tenancy.models import Tenant, User
from tenancy.services.access import create_tenant, set_member
from tenancy.services.records import Change, write_events

PASSWORD = "correct horse battery staple"
HASH = make_password(PASSWORD)  # once, by the hasher that real processes use
NANO = 1_000_000_000


@dataclass
class Scene:
    """What the tests speak of."""

    now: datetime
    mia: User
    stranger: User
    rival: User
    admin: User
    vision: Tenant
    rivals: Tenant
    alpine: Cluster
    basalt: Cluster
    cedar: Cluster
    jobs: dict[str, Job] = field(default_factory=dict)


def build(now: datetime | None = None) -> Scene:
    """The whole scene in the database."""
    now = now or timezone.now()
    acme = create_tenant(actor=None, name="acme", parent=None, now=now)
    vision = create_tenant(actor=None, name="vision", parent=acme, now=now)
    speech = create_tenant(actor=None, name="speech", parent=acme, now=now)
    rivals = create_tenant(actor=None, name="rival", parent=None, now=now)
    people = {
        name: User.objects.create(username=name, password=HASH)
        for name in ("mia", "noor", "stranger", "rex")
    }
    admin = User.objects.create(username="ada", password=HASH, is_superuser=True, is_staff=True)
    set_member(actor=None, tenant=acme, user=people["mia"], role="submitter", now=now)
    set_member(actor=None, tenant=speech, user=people["noor"], role="owner", now=now)
    set_member(actor=None, tenant=rivals, user=people["rex"], role="owner", now=now)
    alpine, basalt, cedar = _fleet(now)
    scene = Scene(
        now, people["mia"], people["stranger"], people["rex"], admin, vision, rivals,
        alpine, basalt, cedar,
    )  # fmt: skip
    _jobs(scene, speech, people["noor"])
    return scene


def _fleet(now: datetime) -> tuple[Cluster, Cluster, Cluster]:
    for name in ("h100-sxm-80", "a100-sxm-80", "l40s-48"):
        Flavor.objects.create(name=name)
        for service_class, rate in (("guaranteed", 3), ("spot", 1)):
            Price.objects.create(
                flavor_id=name, service_class=service_class, nano_per_gpu_hour=rate * NANO,
                currency="USD", effective_from=datetime(2026, 1, 1, tzinfo=UTC),
            )  # fmt: skip
    alpine = _cluster("alpine", "Zürich, H100", "h100-sxm-80", now)
    basalt = _cluster("basalt", "Reykjavík, A100", "a100-sxm-80", now, state="draining")
    cedar = _cluster("cedar", "", "l40s-48", now - timedelta(minutes=12), failing=True)
    _nodes(alpine, spines=2, leaves=4, foreign={3: 8, 4: 4, 28: 8}, off={9: "down", 30: "draining"})
    _nodes(basalt, spines=1, leaves=4, foreign={0: 8, 1: 8})
    _nodes(cedar, spines=1, leaves=2)
    return alpine, basalt, cedar


def _cluster(
    name: str,
    title: str,
    flavor: str,
    seen: datetime,
    *,
    state: str = "active",
    failing: bool = False,
) -> Cluster:
    cluster = Cluster.objects.create(
        name=name, title=title, backend="slurm", endpoint=f"http://{name}.example:6820", state=state,
        last_seen_at=seen, failing_since=seen if failing else None,
        failure="connection refused" if failing else "",
    )  # fmt: skip
    ClusterFlavor.objects.create(
        cluster=cluster, flavor_id=flavor, device=flavor[:4], queue="batch"
    )
    Observation.objects.create(
        cluster=cluster, begun_at=seen, ended_at=seen, accounting_answered=True, gangs=[],
        queues=[["batch", True, 32, 259200], ["debug", True, 4, 3600]], reservations=[],
        foreign_running=3, foreign_pending=2, foreign_pending_gpus=24,
    )  # fmt: skip
    return cluster


def _nodes(
    cluster: Cluster,
    *,
    spines: int,
    leaves: int,
    foreign: dict[int, int] | None = None,
    off: dict[int, str] | None = None,
) -> None:
    device = ClusterFlavor.objects.get(cluster=cluster).device
    Node.objects.bulk_create(
        Node(
            cluster=cluster, name=f"{cluster.name[0]}{number + 1:03d}",
            state=(off or {}).get(number, "up"), reason="fan failed" if number in (off or {}) else "",
            device=device, gpus=8, cpus=128, memory_mib=2_000_000,
            path=[["spine", f"s{number // (leaves * 4)}"], ["leaf", f"l{number // 4}"]],
            queues=["batch"], foreign_gpus=(foreign or {}).get(number, 0),
        )
        for number in range(spines * leaves * 4)
    )  # fmt: skip


def _jobs(scene: Scene, speech: Tenant, noor: User) -> None:
    mia, now = scene.mia, scene.now
    hours = timedelta(hours=1)
    _bound(scene, "llm-pretrain-70b", mia, scene.vision, scene.alpine, range(16, 24), 26 * hours)
    _bound(scene, "asr-large", noor, speech, scene.alpine, (5, 6), 3 * hours, spot=True)
    _bound(scene, "theirs-secret", scene.rival, scene.rivals, scene.alpine, (10, 11), 5 * hours)
    _bound(scene, "vit-huge", mia, scene.vision, scene.basalt, (4, 5, 6, 7), 40 * hours / 60)
    pending = _bound(scene, "diffusion-xl", mia, scene.vision, scene.alpine, (24, 25), hours / 60)
    Job.objects.filter(pk=pending.pk).update(state="pending", started_at=None)
    pending.attempts.update(state="pending", started_at=None, backend_reason="Resources")
    no_room = {
        "cluster": "alpine", "flavor": "h100-sxm-80", "code": "topology_unavailable",
        "message": "It needs 16 whole nodes with 8 GPUs each in one spine; alpine has 15 free, at most"
        " 9 of them in one spine.", "needed": 16, "available": 9, "unit": "nodes", "until": None,
    }  # fmt: skip
    draining = {
        "cluster": "basalt", "flavor": "a100-sxm-80", "code": "cluster_draining",
        "message": "basalt takes no new work.", "needed": None, "available": None, "unit": None,
        "until": None,
    }  # fmt: skip
    quota = {
        **draining, "cluster": "alpine", "flavor": "h100-sxm-80", "code": "quota_exhausted",
        "message": "acme/speech has 16 of 64 guaranteed h100-sxm-80 GPUs left; it needs 32.",
        "needed": 32, "available": 16, "unit": "gpus",
    }  # fmt: skip
    waiting = [
        _waiting(scene, "moe-1t", mia, scene.vision, 16, 2 * hours, [no_room, draining]),
        _waiting(scene, "tts-multilingual", noor, speech, 4, hours / 2, [quota, draining]),
        _waiting(scene, "rival-waits", scene.rival, scene.rivals, 2, hours, [draining]),
        _waiting(scene, "video-align", mia, scene.vision, 2, hours / 4, [draining]),
    ]  # fmt: skip
    ArbiterTerm.objects.update_or_create(id=1, defaults={"queue": [job.pk for job in waiting]})
    _waiting(scene, "just-in", mia, scene.vision, 1, hours / 3600, [])
    held = _waiting(scene, "ablation-7", mia, scene.vision, 1, 9 * hours, [])
    Job.objects.filter(pk=held.pk).update(state="held", held_by="owner")
    for name, state, outcome in (
        ("eval-suite", "succeeded", "Every rank ended with 0."),
        ("sweep-19", "failed", "Ended with exit code 137."),
        ("old-idea", "cancelled", "Cancelled by mia."),
    ):
        job = _waiting(scene, name, mia, scene.vision, 2, 30 * hours, [])
        Job.objects.filter(pk=job.pk).update(
            state=state, outcome=outcome, ended_at=now - 20 * hours
        )


def _waiting(
    scene: Scene, name: str, user: User, tenant: Tenant, nodes: int, age: timedelta,
    reasons: Sequence[dict[str, Any]],
) -> Job:  # fmt: skip
    at = scene.now - age
    flavors = ("h100-sxm-80", "a100-sxm-80")
    job = Job.objects.create(
        tenant=tenant, user=user, name=name, wanted_class="auto", priority=500,
        options=[
            {"flavor": flavor, "nodes": nodes, "gpus_per_node": 8, "cpus_per_node": 64,
             "memory_mib_per_node": 900_000} for flavor in flavors
        ],
        exclusive=True, required_tier="spine" if nodes > 8 else "", time_limit_ms=72 * 3_600_000,
        start_timeout_ms=300_000, max_restarts=3, labels={"experiment": "a17"},
        spec={"v": 1, "name": name, "tenant": tenant.path, "run": {"script": "#!/bin/bash\nsrun x"}},
        submitted_at=at, queued_at=at,
    )  # fmt: skip
    if reasons:
        Telling.objects.create(job=job, version=job.version, reasons=list(reasons))
    scene.jobs[name] = job
    tell(job, "job.queued", "submitted", at, user=user.username)
    return job


def _bound(
    scene: Scene, name: str, user: User, tenant: Tenant, cluster: Cluster, numbers: Sequence[int],
    age: timedelta, *, spot: bool = False,
) -> Job:  # fmt: skip
    job = _waiting(scene, name, user, tenant, len(numbers), age + timedelta(minutes=9), [])
    started = scene.now - age
    service_class = "spot" if spot else "guaranteed"
    nodes = [f"{cluster.name[0]}{number + 1:03d}" for number in numbers]
    named = ClusterFlavor.objects.get(cluster=cluster)
    attempt = Attempt.objects.create(
        job=job, number=1, fence=fence(job.uuid, 1), cluster=cluster, flavor_id=named.flavor_id,
        service_class=service_class, nodes=nodes, gpus_per_node=8, cpus_per_node=64,
        memory_mib_per_node=900_000, exclusive=True, tier="leaf" if len(nodes) <= 4 else "spine",
        tier_seen="leaf" if len(nodes) <= 4 else "spine", account=user.username, state="running",
        backend_id=str(4000 + job.pk), backend_state="running",
        bound_at=started - timedelta(seconds=40), accepted_at=started - timedelta(seconds=38),
        started_at=started,
    )  # fmt: skip
    Job.objects.filter(pk=job.pk).update(
        state="running", class_now=service_class, started_at=started, attempts_made=1
    )
    UsageInterval.objects.create(
        id=new_id(), attempt_id=attempt.id, job_id=job.uuid, job_name=name, tenant=tenant, user=user,
        user_name=user.username, flavor_id=named.flavor_id, cluster=cluster,
        service_class=service_class, gpus=8 * len(nodes), run_start_ms=to_ms(started),
        started_ms=to_ms(started), metered_ms=to_ms(started), started_at=started,
    )  # fmt: skip
    at = {"cluster": cluster.name, "flavor": named.flavor_id, "gpus": 8 * len(nodes)}
    tell(
        job,
        "job.dispatching",
        "bound",
        attempt.bound_at,
        nodes=nodes,
        **at,
        **{"class": service_class},
    )
    tell(job, "job.pending", "accepted", attempt.accepted_at, backend_id=attempt.backend_id, **at)
    tell(job, "job.running", "started", started, backend_id=attempt.backend_id, nodes=nodes, **at)
    return job


def tell(job: Job, kind: str, cause: str, at: datetime, **data: object) -> None:
    """An event of a job."""
    write_events(changes=[Change(kind, str(job.uuid), job.tenant_id, cause, data)], now=at)
