"""Pages of the fleet, and what admins do to a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from clusters.models import Cluster
from clusters.selectors.fleet import cluster_named
from clusters.services.fleet import set_state
from clusters.services.probe import probe_cluster
from federation.selectors.load import cluster_load, cluster_loads, jobs_on
from federation.services.life import leave_cluster
from federation.views.drawing import draw
from kit.errors import MusterError, NotFoundError
from tenancy.models import User
from tenancy.views import admin, person, signed_in

LONGEST_WHY = 1000


@dataclass(frozen=True, slots=True)
class Act:
    """What an admin may do to a cluster: its button, what it means, and what was done."""

    button: str
    means: str
    done: str
    plan: str = ""
    asks_why: bool = True


ACTS: Mapping[str, Act] = {
    "drain": Act(
        "Drain",
        "What is bound there goes on and finishes. Nothing new is bound to it.",
        "The cluster is draining.",
    ),
    "cut-off": Act(
        "Cut off",
        "What has not reached it goes back to the queue. Jobs there stay, are watched and can be "
        "cancelled. Nothing new goes there.",
        "The cluster is cut off.",
    ),
    "undrain": Act(
        "Open", "Work may be bound to it again.", "The cluster is open.", asks_why=False
    ),
    "probe": Act(
        "Probe", "Asks it for versions, rights and clock.", "It was looked at.", asks_why=False
    ),
    "leave": Act(
        "Leave",
        "Every attempt there is cancelled and its job waits in the queue again. When the cluster "
        "has answered for the last of them, it is gone from here.",
        "The cluster leaves.",
        plan="cancel",
    ),
    "forget": Act(
        "Forget",
        "For a cluster that never comes back. Its attempts end here and now, unseen; they may run "
        "on there. Their jobs are held for their owners.",
        "The cluster is gone.",
        plan="forget",
    ),
}
_OFFERED: Mapping[str, tuple[str, ...]] = {
    Cluster.State.ACTIVE: ("probe", "drain", "cut-off", "leave", "forget"),
    Cluster.State.DRAINING: ("undrain", "probe", "cut-off", "leave", "forget"),
    Cluster.State.CUT_OFF: ("undrain", "probe", "leave", "forget"),
}
_STATES = {
    "drain": Cluster.State.DRAINING,
    "cut-off": Cluster.State.CUT_OFF,
    "undrain": Cluster.State.ACTIVE,
}


@signed_in
def clusters(request: HttpRequest) -> HttpResponse:
    """`/clusters`"""
    now = timezone.now()
    return render(request, "clusters.html", {"now": now, "clusters": cluster_loads(now)})


@signed_in
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """`/clusters/<name>`: its nodes where they are; jobs are named to those who may see them."""
    user, now = person(request), timezone.now()
    load = cluster_load(name, now)
    jobs = jobs_on(user, load.nodes)
    context = {
        "now": now,
        "it": load,
        "drawing": draw(load.nodes, jobs),
        "jobs": sorted(jobs.values(), key=lambda job: -job.pk),
    }
    if user.is_superuser:
        offered = _OFFERED[load.cluster.state]
        context["acts"] = {one: ACTS[one] for one in offered}
        context["findings"] = load.cluster.probe.get("findings", [])
        context["probed_at"] = load.cluster.probe.get("at", "")
    return render(request, "cluster.html", context)


@signed_in
@require_POST
def change(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """`POST /clusters/<name>/drain` and the like, for admins; back to where it can be seen."""
    user = admin(request, "Only admins change clusters.")
    act = ACTS.get(action)
    if act is None:
        raise Http404
    why = request.POST.get("why", "").replace("\0", "")[:LONGEST_WHY]
    try:
        it = _do(action, act, user, cluster_named(name), why, timezone.now())
    except NotFoundError:
        raise
    except MusterError as error:
        messages.error(request, " ".join([error.detail, *(one.detail for one in error.errors)]))
        return redirect("cluster", name=name)
    messages.success(request, act.done)
    return redirect("clusters") if it.state == Cluster.State.GONE else redirect("cluster", name)


def _do(action: str, act: Act, user: User, it: Cluster, why: str, now: datetime) -> Cluster:
    if action in _STATES:
        return set_state(actor=user, cluster=it, state=_STATES[action], why=why, now=now)
    if act.plan:
        return leave_cluster(actor=user, cluster=it, plan=act.plan, why=why, now=now)
    probe_cluster(actor=user, cluster=it, now=now)
    return it
