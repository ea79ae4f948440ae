"""The page of quotas: the tree as a table to edit, what would change, the history and its undoing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from clusters.models import Cluster
from clusters.selectors.catalogue import flavor_names
from federation.selectors.borrowing import borrowing
from federation.selectors.quota_sums import FlavorSums, Standing, commitments_now, standing
from federation.selectors.whatif import effect_of
from federation.views.limit_form import OF, lines_of
from federation.views.limit_form import Form as LimitForm
from federation.views.quota_form import NEW, Form, form_of, shown, texts_of
from federation.views.quota_words import Plan, act_words, not_followed, plan_words
from federation.views.reach import Reach, is_below
from kit.errors import MusterError, NotFoundError, PermissionDeniedError
from kit.pagination import refuse_unknown
from quotas.core.cohort import GUARANTEED, SPOT, QuotaRow
from quotas.core.table import TableRow
from quotas.models import Quota
from quotas.selectors import act_of, acts_page, all_quotas, limits_under
from quotas.services.edits import apply_edits, plan_edits, undo
from quotas.services.files import FORMATS, read_file, write_file
from quotas.services.tables import TablePlan, apply_table, plan_table, refuse, table_of
from tenancy.models import User
from tenancy.selectors.tenants import managed_tenant
from tenancy.services.records import LONGEST_WHY
from tenancy.views import person, signed_in

MOST_ENTRIES = 60
MOST_LINES = 120  # a form of more fields than DATA_UPLOAD_MAX_NUMBER_FIELDS would be refused
FILTERS = ("tenant", "flavor")
LARGEST_FILE = 1_000_000
LABELS = {  # and what an empty input means
    "guaranteed": ("Guaranteed", ""),
    "borrowing_limit": ("Borrowing limit", "none"),
    "lending_limit": ("Lending limit", "all"),
    "weight": ("Weight", "1"),
}
STATUS = {"stale_write": 412, "permission_denied": 403, "invalid_content": 422}


@dataclass(frozen=True, slots=True)
class Put:
    """An input of a row: what it shows, what is set where that is other (else None), what is wrong.

    `empty` is what an empty one means.
    """

    name: str
    label: str
    empty: str
    text: str
    now: str | None
    wrong: Sequence[str]


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page. `was` is what is set, as the form sends it back."""

    quota: Quota
    row: QuotaRow
    puts: tuple[Put, ...]
    was: str
    wrong: Sequence[str]
    gone: bool
    can_edit: bool
    guaranteed_used: int
    spot: int
    borrowed: int
    lent: int
    waiting: int

    @property
    def granted(self) -> int:
        """GPUs that grants add now."""
        return self.row.guaranteed - self.quota.guaranteed

    @property
    def over(self) -> int:
        """GPUs used as guaranteed beyond what is guaranteed; they only shrink."""
        return max(self.guaranteed_used - self.row.guaranteed, 0)

    @property
    def depth(self) -> int:
        """How far below the root, at most 5 for the eye."""
        return min(len(self.quota.tenant.lineage) - 1, 5)

    @property
    def is_edited(self) -> bool:
        """Whether something else than what is set was typed."""
        return self.gone or any(put.now is not None for put in self.puts)

    @property
    def key(self) -> str:
        """As the form names it."""
        return str(self.quota.pk)


@dataclass(frozen=True)
class Section:
    """One flavor: its sums and its rows."""

    sums: FlavorSums
    lines: tuple[Line, ...]

    @property
    def has_over(self) -> bool:
        """Whether some row is used over its guarantee."""
        return any(line.over for line in self.lines)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def quotas(request: HttpRequest) -> HttpResponse:
    """`/quotas?tenant=&flavor=`: GET shows the table; POST what edits would change, or saves them."""
    refuse_unknown(request.GET, FILTERS)
    user, now = person(request), timezone.now()
    reach = Reach.of(user)
    if request.method != "POST":
        return _page(request, user, reach, now)
    sent, acts = request.POST, _FILE_ACTS if "form" in request.POST else _ACTS
    editable = [one for one in all_quotas() if one.tenant_id in reach.managed]
    form = form_of(sent, editable)
    why = sent.get("why", "").strip()
    act = acts.get(sent.get("act", ""), _preview)
    try:
        plan = act(request, user, form, why, now)
    except NotFoundError:
        raise
    except MusterError as error:
        told = form.note(error.errors) or ([] if error.errors else [error.detail])
        status = STATUS.get(error.code, 409)
        more = {"problems": told, "why": why, "status": status, "code": error.code}
        return _page(request, user, reach, now, form=form, **more)
    if plan is None:
        return redirect(request.get_full_path())
    return _page(request, user, reach, now, form=form, plan=plan, why=why)


def _preview(request: HttpRequest, user: User, form: Form, why: str, now: datetime) -> Plan | None:
    """What the edits would change; None = nothing was typed."""
    if form.wrong:
        return Plan()
    if not form.edits:
        messages.info(request, "Nothing was changed in the table.")
        return None
    _require_managed(user, form)
    return _shown_plan(user, plan_edits(actor=user, edits=form.edits, now=now), now)


def _save(request: HttpRequest, user: User, form: Form, why: str, now: datetime) -> Plan | None:
    """Writes the edits; None = done."""
    if form.wrong or not form.edits:
        return _preview(request, user, form, why, now)
    _require_managed(user, form)
    done = apply_edits(actor=user, edits=form.edits, why=why, now=now)
    _tell_saved(request, done, now)
    return None


def _file(request: HttpRequest, user: User, form: Form, why: str, now: datetime) -> Plan | None:
    """What a file would change."""
    table, prune, kept = _file_of(request, user)
    plan = plan_table(table=table, prune=prune, now=now)
    return _shown_plan(user, plan, now, file=kept)


def _save_file(
    request: HttpRequest, user: User, form: Form, why: str, now: datetime
) -> Plan | None:
    """Writes a file that was looked at."""
    table, prune, kept = _file_of(request, user)
    if not why:
        plan = plan_table(table=table, prune=prune, now=now)
        return _shown_plan(user, plan, now, file={**kept, "wrong": "Say why."})
    done = apply_table(actor=user, table=table, prune=prune, why=why, now=now)
    _tell_saved(request, done, now)
    return None


_ACTS = {"preview": _preview, "save": _save}
_FILE_ACTS = {"preview": _file, "save": _save_file}


@signed_in
def export(request: HttpRequest) -> HttpResponse:
    """`/quotas/export?format=csv`: the rows of the tenants that one sees, as a file."""
    refuse_unknown(request.GET, ["format"])
    form = request.GET.get("format", "yaml")
    if form not in FORMATS:
        raise NotFoundError("Give the format yaml or csv.")
    seen = Reach.of(person(request)).seen
    rows = table_of([one for one in all_quotas() if one.tenant_id in seen])
    response = HttpResponse(
        write_file(rows, form), content_type="text/csv" if form == "csv" else "application/yaml"
    )
    response["Content-Disposition"] = f'attachment; filename="quotas.{form}"'
    return response


@signed_in
@require_POST
def undo_act(request: HttpRequest, entry_id: int) -> HttpResponse:
    """`POST /quotas/undo/<entry>`: sets back what one act changed, as a new act."""
    user, now = person(request), timezone.now()
    act = act_of(entry_id)
    if act is None:
        raise NotFoundError("There is no such change.")
    for entry in act.entries:
        managed_tenant(user, entry.object_id.rsplit(" ", 1)[0])
    why = request.POST.get("why", "").strip()
    try:
        done = undo(actor=user, entry_id=entry_id, why=why, now=now)
    except MusterError as error:
        messages.error(request, f"Not undone. {_words(error)}")
    else:
        _tell_saved(request, done, now)
    return redirect("quotas")


def _require_managed(user: User, form: Form) -> None:
    for path in sorted({edit.row.tenant for edit in form.edits}):
        managed_tenant(user, path)


def _file_of(request: HttpRequest, user: User) -> tuple[list[TableRow], bool, dict[str, Any]]:
    """The table of an upload, or of the text that was kept from one.

    Raises:
        PermissionDeniedError: not an admin.
        InvalidContentError: naming rows and fields.
    """
    if not user.is_superuser:
        raise PermissionDeniedError("Only an admin may apply a file.")
    given = request.FILES.get("file")
    text = request.POST.get("text", "")
    form = request.POST.get("form", "yaml")
    if given is not None:
        text = given.read(LARGEST_FILE + 1).decode("utf-8", "replace")
        form = "csv" if str(given.name).endswith(".csv") else "yaml"
    table, problems = read_file(text[: LARGEST_FILE + 1], form)
    refuse(problems)
    prune = "prune" in request.POST
    return table, prune, {"text": text, "form": form, "prune": prune}


def _shown_plan(
    user: User, plan: TablePlan, now: datetime, file: Mapping[str, Any] | None = None
) -> Plan:
    return plan_words(user, plan, effect_of(plan.rows, now), _warnings(plan, now), file)


def _warnings(plan: TablePlan, now: datetime) -> list[str]:
    names = dict(Cluster.objects.values_list("id", "name"))
    return commitments_now(plan.rows, now).warnings(names)


def _tell_saved(request: HttpRequest, plan: TablePlan, now: datetime) -> None:
    count = len(plan.changes)
    messages.success(request, f"Saved: {count} row{'' if count == 1 else 's'} changed.")
    for words in _warnings(plan, now):
        messages.warning(request, f"Over-committed: {words}")
    for words in not_followed():
        messages.info(request, words)


def _words(error: MusterError) -> str:
    return " ".join(one.detail for one in error.errors) or error.detail


def _page(
    request: HttpRequest, user: User, reach: Reach, now: datetime, **given: Any
) -> HttpResponse:
    form: Form = given.get("form") or Form()
    found = standing(now)
    chosen = {name: request.GET.get(name, "").strip() for name in FILTERS}
    rows = [one for one in all_quotas() if one.tenant_id in reach.seen and _is_chosen(one, chosen)]
    limits = [one for one in limits_under(user) if is_below(one.tenant.path, chosen["tenant"])]
    context = {
        "now": now,
        "sections": list(_sections(found, rows[:MOST_LINES], chosen["flavor"], reach, form)),
        "chosen": chosen,
        "hidden": max(len(rows) - MOST_LINES, 0),
        "can_edit": bool(reach.managed),
        "plan": given.get("plan"),
        "problems": given.get("problems", ()),
        "is_stale": given.get("code") == "stale_write",
        "wrong_why": given.get("code") == "invalid_content" and not given.get("why"),
        "why": given.get("why", ""),
        "new": form.typed.get(NEW),
        "new_wrong": form.wrong.get(NEW, {}),
        "paths": sorted(reach.managed.values()),
        "flavors": flavor_names(),
        "clusters": Cluster.objects.exclude(state=Cluster.State.GONE).order_by("name"),
        "acts": [act_words(act, reach.managed) for act in acts_page(user, limit=MOST_ENTRIES)],
        "longest": LONGEST_WHY,
        "limits": list(lines_of(limits[:MOST_LINES], reach.managed, LimitForm())),
        "limit_of": OF,
        "hidden_limits": max(len(limits) - MOST_LINES, 0),
        "borrowing": [
            one
            for one in borrowing(found, None if user.is_superuser else reach.seen)
            if (one.borrowers or one.victims) and chosen["flavor"] in ("", one.sums.flavor)
        ],
    }
    status = given.get("status", 422 if form.wrong else 200)
    return render(request, "quotas.html", context, status=status)


def _is_chosen(quota: Quota, chosen: Mapping[str, str]) -> bool:
    """Whether the filters leave the row on the page: a flavor, and a tenant with all below it."""
    return chosen["flavor"] in ("", quota.flavor_id) and is_below(
        quota.tenant.path, chosen["tenant"]
    )


def _sections(
    found: Standing, rows: Sequence[Quota], flavor: str, reach: Reach, form: Form
) -> Iterator[Section]:
    for name, sums in found.flavors.items():
        if flavor in ("", name):
            here = [quota for quota in rows if quota.flavor_id == name]
            yield Section(sums, tuple(_line(found, quota, reach, form) for quota in here))


def _line(found: Standing, quota: Quota, reach: Reach, form: Form) -> Line:
    typed = form.typed.get(str(quota.pk))
    row = found.rows[quota.tenant_id, quota.flavor_id, quota.cluster_id]
    texts = texts_of(quota)
    wrong = form.wrong.get(str(quota.pk), {})
    return Line(
        quota=quota,
        row=row,
        puts=tuple(_puts(texts, typed.texts if typed else texts, wrong)),
        was=shown(texts),
        wrong=[
            words for name, all_words in wrong.items() if name not in texts for words in all_words
        ],
        gone=typed is not None and typed.gone,
        can_edit=quota.tenant_id in reach.managed,
        guaranteed_used=found.used(row, GUARANTEED),
        spot=found.used(row, SPOT),
        borrowed=found.borrowed(row),
        lent=found.lent(row),
        waiting=found.waiting(row),
    )


def _puts(
    texts: Mapping[str, str], typed: Mapping[str, str], wrong: Mapping[str, Sequence[str]]
) -> Iterator[Put]:
    for name, text in texts.items():
        now = text if typed[name] != text else None
        yield Put(name, *LABELS[name], typed[name], now, wrong.get(name, ()))
