"""`/clusters/<name>/quota-mirror`: the limits of a cluster's accounts beside quotas, for admins."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from clusters.models import Cluster
from clusters.selectors.fleet import cluster_named
from federation.selectors.member_limits import held_attempts, held_counts
from federation.selectors.quota_sums import uses_now
from kit.errors import MusterError
from quotas.core.mirror import Drift, MirrorLine
from quotas.services.mirror import Change, Mirror, Outcome, apply_mirror, look_at_mirror
from tenancy.models import User
from tenancy.services.records import LONGEST_WHY
from tenancy.views import admin, signed_in

WORDS: Mapping[Drift, tuple[str, str]] = {  # what is shown, and the colour of its mark
    Drift.NONE: ("in step", "open"),
    Drift.MISSING: ("missing", "draining"),
    Drift.DIFFERS: ("differs", "draining"),
    Drift.FOREIGN: ("not Muster's", "queued"),
    Drift.NO_ACCOUNT: ("no such account there", "failed"),
    Drift.NOT_COUNTED: ("not counted there", "failed"),
}
MOST_WORDS = 10  # of limits that were not set; the table has all
OUTCOMES: Mapping[Outcome, str] = {
    Outcome.WOULD_SET: "would be set",
    Outcome.BY_HAND: "by hand",
    Outcome.SET: "set",
    Outcome.NOT_SET: "not set",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A limit as it is shown."""

    it: MirrorLine
    tenants: tuple[str, ...]

    @property
    def word(self) -> str:
        """Its drift in words."""
        return WORDS[self.it.drift][0]

    @property
    def mark(self) -> str:
        """The colour of its drift."""
        return WORDS[self.it.drift][1]


@dataclass(frozen=True, slots=True)
class Step:
    """A change as it is shown."""

    it: Change

    @property
    def word(self) -> str:
        """What becomes, or became, of it."""
        return OUTCOMES[self.it.outcome]


@signed_in
@require_http_methods(["GET", "POST"])
def quota_mirror(request: HttpRequest, name: str) -> HttpResponse:
    """Asks the cluster at once. `act=preview` shows what would be set, `act=apply` sets it."""
    user = admin(request, "Only admins see and set the limits of a cluster's accounts.")
    cluster = cluster_named(name)
    act, why = request.POST.get("act", ""), request.POST.get("why", "").replace("\0", "")
    context = {
        "cluster": cluster,
        "why": why,
        "longest": LONGEST_WHY,
        "is_preview": act == "preview",
        "held": held_attempts(cluster)[:MOST_WORDS],
        "held_count": held_counts().get(cluster.id, 0),
    }
    status = 200
    try:
        if act == "apply":
            return _applied(request, user, cluster, why)
        found: Mirror | None = look_at_mirror(cluster=cluster, uses=uses_now(), now=timezone.now())
    except MusterError as error:
        found, status = _look_again(cluster, error), error.status
        context["problem"] = " ".join([error.detail, *(one.detail for one in error.errors)])
        context["is_preview"] = act == "apply"
    if found is not None:
        context |= _shown(found)
    return render(request, "quota_mirror.html", context, status=status)


def _look_again(cluster: Cluster, error: MusterError) -> Mirror | None:
    """What is there, for a form that was refused; None where the cluster could not be read."""
    if error.status != 422:
        return None
    return look_at_mirror(cluster=cluster, uses=uses_now(), now=timezone.now())


def _applied(request: HttpRequest, user: User, cluster: Cluster, why: str) -> HttpResponse:
    """Back to what is there now, and what came of each change."""
    done = apply_mirror(actor=user, cluster=cluster, uses=uses_now(), why=why, now=timezone.now())
    were_set = sum(change.outcome is Outcome.SET for change in done.changes)
    left = [change for change in done.changes if change.outcome is not Outcome.SET]
    if were_set or not left:
        messages.success(request, f"Limits set: {were_set}.")
    for change in left[:MOST_WORDS]:
        said = f"{change.account} {change.resource}: {OUTCOMES[change.outcome]}"
        messages.error(request, f"{said}: {change.detail}.")
    return redirect("quota-mirror", name=cluster.name)


def _shown(found: Mirror) -> dict[str, object]:
    return {
        "found": found,
        "lines": [
            Line(line, tuple(sorted(found.paths[one] for one in line.tenants)))
            for line in found.lines
        ],
        "steps": [Step(change) for change in found.changes],
        "commands": sorted(found.commands.items()),
        "holding": any(line.holds_back for line in found.lines),
    }
