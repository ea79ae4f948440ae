"""The page of limits: the table to edit, what would change before it is saved, and the history."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from federation.selectors.whatif import effect_of_limits
from federation.views.limit_form import OF, Form, form_of, lines_of
from federation.views.quota_words import Plan, limit_act_words, limit_plan_words
from federation.views.reach import Reach, is_below
from kit.errors import MusterError, StaleWriteError
from kit.pagination import refuse_unknown
from quotas.selectors import acts_page, limits_under
from quotas.services.limit_edits import LimitPlan, apply_limits, plan_limits
from tenancy.models import Tenant, User
from tenancy.selectors.tenants import managed_tenant
from tenancy.services.records import LONGEST_WHY
from tenancy.views import person, signed_in

MOST_ENTRIES = 60
MOST_LINES = 120  # a form of more fields than DATA_UPLOAD_MAX_NUMBER_FIELDS would be refused
STATUS = {"stale_write": 412, "permission_denied": 403, "invalid_content": 422}
LOST = "A limit that you changed was taken away meanwhile; what is left stands below."
Act = Callable[[User, Form, str, datetime], LimitPlan]


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def limits(request: HttpRequest) -> HttpResponse:
    """`/quotas/limits?tenant=`: GET shows the table; POST what edits would change, or saves them."""
    refuse_unknown(request.GET, ("tenant",))
    user, now = person(request), timezone.now()
    reach = Reach.of(user)
    if request.method != "POST":
        return _page(request, user, reach, now)
    form = _form(request, reach, user)
    why = request.POST.get("why", "").strip()
    is_save = request.POST.get("act") == "save"
    if form.wrong:
        return _page(request, user, reach, now, form=form, why=why, status=422)
    if not form.edits and not form.lost:
        messages.info(request, "Nothing was changed in the table.")
        return redirect(request.get_full_path())
    try:
        plan = _done(user, form, why, now) if is_save else _looked_at(user, form)
    except MusterError as error:
        told = form.note(error.errors) or ([] if error.errors else [error.detail])
        given = {"problems": told, "status": STATUS.get(error.code, 409), "code": error.code}
        return _page(request, user, reach, now, form=form, why=why, **given)
    if not plan.changes:
        messages.info(request, "That is what is set already.")
        return redirect(request.get_full_path())
    if is_save:
        count = len(plan.changes)
        messages.success(request, f"Saved: {count} limit{'' if count == 1 else 's'} changed.")
        return redirect(request.get_full_path())
    words = limit_plan_words(user, plan, effect_of_limits(plan.rows, now))
    return _page(request, user, reach, now, form=form, why=why, plan=words)


def _form(request: HttpRequest, reach: Reach, user: User) -> Form:
    editable = [one for one in limits_under(user) if one.tenant_id in reach.managed]
    tenants = {tenant.path: tenant for tenant in Tenant.objects.filter(pk__in=reach.managed)}
    return form_of(request.POST, editable, tenants)


def _looked_at(user: User, form: Form) -> LimitPlan:
    """What the edits would change.

    Raises:
        StaleWriteError: one of the limits is not there any more; or as `plan_limits`.
    """
    if form.lost:
        raise StaleWriteError(LOST)
    for edit in form.edits:
        managed_tenant(user, edit.tenant.path)
    return plan_limits(edits=form.edits)


def _done(user: User, form: Form, why: str, now: datetime) -> LimitPlan:
    """Writes the edits; raises as `_looked_at`, and without a reason."""
    _looked_at(user, form)
    return apply_limits(actor=user, edits=form.edits, why=why, now=now)


def _page(
    request: HttpRequest, user: User, reach: Reach, now: datetime, **given: Any
) -> HttpResponse:
    form: Form = given.get("form") or Form()
    plan: Plan | None = given.get("plan")
    top = request.GET.get("tenant", "").strip()
    shown = [one for one in limits_under(user) if is_below(one.tenant.path, top)]
    acts = acts_page(user, limit=MOST_ENTRIES, about="limit")
    context = {
        "now": now,
        "limits": list(lines_of(shown[:MOST_LINES], reach.managed, form)),
        "hidden_limits": max(len(shown) - MOST_LINES, 0),
        "chosen": {"tenant": top},
        "can_edit": bool(reach.managed),
        "is_form": True,
        "plan": plan,
        "problems": given.get("problems", ()),
        "is_stale": given.get("code") == "stale_write",
        "wrong_why": given.get("code") == "invalid_content" and not form.wrong,
        "why": given.get("why", ""),
        "limit_new": form.typed.get("new"),
        "limit_place": form.new,
        "limit_wrong": form.wrong.get("new", {}),
        "limit_of": OF,
        "paths": sorted(reach.managed.values()),
        "acts": [limit_act_words(act) for act in acts],
        "longest": LONGEST_WHY,
    }
    return render(request, "quota_limits.html", context, status=given.get("status", 200))
