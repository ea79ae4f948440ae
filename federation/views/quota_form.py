"""The table of quotas as a form: what was typed, what of it is an edit, and what is wrong with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from kit.errors import FieldProblem
from quotas.core.table import NUMBERS, TableRow, number_of, parse_table
from quotas.models import Quota
from quotas.services.edits import Edit

NEW = "new"
Wrong = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Typed:
    """One row of the form. `key` is the row's id, or `new`; `was` is what it showed."""

    key: str
    place: Mapping[str, str | None]
    texts: Mapping[str, str]
    was: str
    revision: int
    gone: bool

    @property
    def is_edit(self) -> bool:
        """Whether it is other than what was shown."""
        return self.gone or shown(self.texts) != self.was

    @property
    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        numbers = {name: number_of(self.texts[name]) for name in NUMBERS}
        if numbers["weight"] is None:
            numbers["weight"] = 1
        return {**self.place, **numbers}


@dataclass(frozen=True)
class Form:
    """What was sent: the edits in order, their keys, and what is wrong by key and field."""

    typed: Mapping[str, Typed] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    keys: tuple[str, ...] = ()
    wrong: Wrong = field(default_factory=dict)

    def note(self, problems: Iterable[FieldProblem]) -> list[str]:
        """Files problems of the edits (`/rows/1/guaranteed`) under their rows; the others in words.

        Those are problems of a file's rows, or of no row.
        """
        rest = []
        for problem in problems:
            _, *parts = problem.pointer.split("/")
            number, name = (*parts[1:], "", "")[:2]
            if parts[:1] != ["rows"] or not number:
                rest.append(problem.detail)
            elif not self.keys:
                rest.append(f"Row {number}{', ' + name if name else ''}: {problem.detail}")
            else:
                by_field = self.wrong.setdefault(self.keys[int(number) - 1], {})
                by_field.setdefault(name, []).append(problem.detail)
        return rest


def texts_of(quota: Quota) -> dict[str, str]:
    """What the inputs of a row show."""
    values = {name: getattr(quota, name) for name in NUMBERS}
    return {name: "" if value is None else str(value) for name, value in values.items()}


def shown(texts: Mapping[str, str]) -> str:
    """The inputs of a row as one text, to be compared."""
    return "|".join(texts[name] for name in NUMBERS)


def form_of(sent: QueryDict, editable: Sequence[Quota]) -> Form:
    """The form that was sent, as far as it speaks of rows that the person may change."""
    typed = {}
    for quota in editable:
        key = str(quota.pk)
        place = {
            "tenant": quota.tenant.path,
            "flavor": quota.flavor_id,
            "cluster": quota.cluster.name if quota.cluster else None,
        }
        if f"was:{key}" in sent:
            typed[key] = _typed(sent, key, place)
    new = {name: sent.get(f"{name}:{NEW}", "").strip() for name in ("tenant", "flavor", "cluster")}
    if new["tenant"]:
        typed[NEW] = _typed(sent, NEW, {**new, "cluster": new["cluster"] or None})
    return _parsed({key: one for key, one in typed.items() if one.is_edit})


def _typed(sent: QueryDict, key: str, place: Mapping[str, str | None]) -> Typed:
    revision = sent.get(f"revision:{key}", "")
    return Typed(
        key=key,
        place=place,
        texts={name: sent.get(f"{name}:{key}", "").strip()[:40] for name in NUMBERS},
        was=sent.get(f"was:{key}", ""),
        revision=int(revision) if revision.isascii() and revision.isdigit() else 0,
        gone=f"gone:{key}" in sent,
    )


def _parsed(typed: Mapping[str, Typed]) -> Form:
    rows, problems = parse_table([one.row for one in typed.values()])
    keys = tuple(typed)
    wrong: Wrong = {}
    for problem in problems:
        by_field = wrong.setdefault(keys[problem.row - 1], {})
        by_field.setdefault(problem.field, []).append(problem.detail)
    return Form(typed, () if wrong else tuple(_edits(typed, rows)), keys, wrong)


def _edits(typed: Mapping[str, Typed], rows: Sequence[TableRow]) -> Iterable[Edit]:
    for one, row in zip(typed.values(), rows, strict=True):
        yield Edit(row, one.revision, one.gone)
