"""The table of limits as a form: what was typed, what of it is an edit, and what is wrong with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from federation.services.limits import read_time_limit
from kit.errors import FieldProblem, InvalidContentError
from kit.intervals import DAY_MS
from quotas.core.limits import BOUNDS, Scope
from quotas.core.table import number_of
from quotas.models import Limit
from quotas.services.limit_edits import LimitEdit
from quotas.services.limits import LONGEST_MS, Whose, read_whose, whose_of
from tenancy.models import Tenant

NEW = "new"
LONGEST_CELL = 40
LABELS = {
    "running_gpus": "GPUs running",
    "running_jobs": "Jobs running",
    "waiting_jobs": "Jobs waiting",
    "longest_ms": "Longest time limit",
}
OF = {  # whose jobs a new limit may speak for
    "tenant": "all jobs together",
    "each": "each person",
    "user": "one person",
    "label": "a label",
}
# Said here, not taken from the service: a number without a unit is no time in a form.
WRONG_TIME = (
    f"Give a time such as 72:00:00, 3-00:00:00 or 90m, at most {LONGEST_MS // DAY_MS} days."
)
_FIELDS = {"time_limit": "longest_ms", "scope": "of", "user": "of", "label": "of"}
Wrong = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Typed:
    """One row of the form. `key` is the limit's id, or `new`; `was` is what its inputs showed."""

    key: str
    texts: Mapping[str, str]
    was: str
    revision: int
    gone: bool

    @property
    def is_edit(self) -> bool:
        """Whether it is other than what was shown."""
        return self.gone or shown(self.texts) != self.was


@dataclass(frozen=True)
class Form:
    """What was sent: the rows that are other than shown, the edits they make, what is wrong.

    `new` are the inputs of a new limit that say whose it is; `lost` whether a limit that was edited
    is not there any more. `wrong` is by key and field.
    """

    typed: Mapping[str, Typed] = field(default_factory=dict)
    new: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[LimitEdit, ...] = ()
    keys: tuple[str, ...] = ()
    wrong: Wrong = field(default_factory=dict)
    lost: bool = False

    def note(self, problems: Iterable[FieldProblem]) -> list[str]:
        """Files problems of the edits (`/rows/1/tenant`) under their rows; the others in words."""
        rest = []
        for problem in problems:
            _, *parts = problem.pointer.split("/")
            if parts[:1] == ["rows"]:
                by_field = self.wrong.setdefault(self.keys[int(parts[1]) - 1], {})
                by_field.setdefault(_FIELDS.get(parts[2], parts[2]), []).append(problem.detail)
            else:
                rest.append(problem.detail)
        return rest


def texts_of(limit: Limit) -> dict[str, str]:
    """What the inputs of a limit show."""
    return {name: text_of(name, getattr(limit, name)) for name in BOUNDS}


def text_of(name: str, bound: int | None) -> str:
    """A bound as people write it; nothing where there is none."""
    if bound is None:
        return ""
    return clock_text(bound) if name == "longest_ms" else str(bound)


def clock_text(milliseconds: int) -> str:
    """Whole seconds as `HH:MM:SS`, from a day on `D-HH:MM:SS`; fractions are dropped."""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    text = f"{hours:02d}:{minutes:02d}:{seconds:02d}"
    return f"{days}-{text}" if days else text


def shown(texts: Mapping[str, str]) -> str:
    """The inputs of a row as one text, to be compared."""
    return "|".join(texts[name] for name in BOUNDS)


def form_of(sent: QueryDict, editable: Sequence[Limit], tenants: Mapping[str, Tenant]) -> Form:
    """The form that was sent, as far as it speaks of limits that the person may change.

    `tenants` are those by path for which they may set a new one.
    """
    limits = {str(limit.pk): limit for limit in editable}
    keys = [name.removeprefix("was:") for name in sent if name.startswith("was:")]
    sent_rows = {key: _typed(sent, key) for key in keys if key != NEW}
    typed = {key: one for key, one in sent_rows.items() if one.is_edit}
    new = {name: sent.get(f"{name}:{NEW}", "").strip() for name in ("tenant", "scope", "of")}
    last = _typed(sent, NEW)
    if new["tenant"] or new["of"] or any(last.texts.values()):
        typed[NEW] = last
    lost = any(key not in limits and not one.gone for key, one in typed.items() if key != NEW)
    known = {key: one for key, one in typed.items() if key in limits or key == NEW}
    wrong: Wrong = {}
    edits = []
    for key, one in known.items():
        place = (
            _place_of(new, tenants, wrong.setdefault(key, {}))
            if key == NEW
            else (limits[key].tenant, whose_of(limits[key]))
        )
        bounds = {} if one.gone else _bounds(one.texts, wrong.setdefault(key, {}))
        if place is not None:
            edits.append(LimitEdit(*place, bounds, one.revision, one.gone))
    wrong = {key: fields for key, fields in wrong.items() if fields}
    return Form(known, new, () if wrong or lost else tuple(edits), tuple(known), wrong, lost)


def _typed(sent: QueryDict, key: str) -> Typed:
    revision = sent.get(f"revision:{key}", "")
    return Typed(
        key=key,
        texts={name: sent.get(f"{name}:{key}", "").strip()[:LONGEST_CELL] for name in BOUNDS},
        was=sent.get(f"was:{key}", ""),
        revision=int(revision) if revision.isascii() and revision.isdigit() else 0,
        gone=f"gone:{key}" in sent,
    )


def _place_of(
    new: Mapping[str, str], tenants: Mapping[str, Tenant], wrong: dict[str, list[str]]
) -> tuple[Tenant, Whose] | None:
    """The tenant of a new limit, and whose jobs it speaks for; None when something is wrong."""
    tenant = tenants.get(new["tenant"])
    if tenant is None:
        unknown = "There is no such tenant, or its limits are not yours to set."
        wrong["tenant"] = [unknown if new["tenant"] else "Name the tenant."]
    scope, of = new["scope"], new["of"]
    if scope in ("tenant", "each") and of:
        wrong["of"] = [f"Leave it empty for {OF[scope]}."]
        return None
    try:
        whose = read_whose(
            Scope.USER.value if scope == "each" else scope,
            of if scope == "user" else None,
            of if scope == "label" else None,
        )
    except InvalidContentError as error:
        wrong["of"] = [problem.detail for problem in error.errors]
        return None
    return None if tenant is None else (tenant, whose)


def _bounds(texts: Mapping[str, str], wrong: dict[str, list[str]]) -> dict[str, Any]:
    """What was typed, numbers where it is some; what is none is refused with the limit."""
    bounds: dict[str, Any] = {name: number_of(texts[name]) for name in BOUNDS}
    try:
        bounds["longest_ms"] = read_time_limit(texts["longest_ms"] or None)
    except InvalidContentError:
        wrong["longest_ms"] = [WRONG_TIME]
    return bounds


def of_words(limit: Limit) -> str:
    """For whose jobs a limit speaks."""
    if limit.scope == Scope.TENANT:
        return "all jobs together"
    return f"label {whose_of(limit)}" if limit.label else str(whose_of(limit))


@dataclass(frozen=True, slots=True)
class Put:
    """An input of a limit: what it shows, what is set where that is other (else None), its faults."""

    name: str
    label: str
    text: str
    now: str | None
    wrong: Sequence[str]


@dataclass(frozen=True, slots=True)
class Line:
    """A limit on the page. `was` is what is set, as the form sends it back."""

    limit: Limit
    of: str
    puts: tuple[Put, ...]
    was: str
    wrong: Sequence[str]
    gone: bool
    can_edit: bool

    @property
    def key(self) -> str:
        """As the form names it."""
        return str(self.limit.pk)

    @property
    def is_edited(self) -> bool:
        """Whether something else than what is set was typed."""
        return self.gone or any(put.now is not None for put in self.puts)


def lines_of(limits: Iterable[Limit], managed: Iterable[Any], form: Form) -> Iterator[Line]:
    """The limits as the page shows them, with what was typed; `managed` are tenants' ids."""
    ids = set(managed)
    for limit in limits:
        key, texts = str(limit.pk), texts_of(limit)
        typed, wrong = form.typed.get(key), form.wrong.get(key, {})
        now_typed = typed.texts if typed else texts
        yield Line(
            limit=limit,
            of=of_words(limit),
            puts=tuple(
                Put(
                    name,
                    LABELS[name],
                    now_typed[name],
                    text if now_typed[name] != text else None,
                    wrong.get(name, ()),
                )
                for name, text in texts.items()
            ),
            was=shown(texts),
            wrong=[words for name, told in wrong.items() if name not in texts for words in told],
            gone=typed is not None and typed.gone,
            can_edit=limit.tenant_id in ids,
        )
