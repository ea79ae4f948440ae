"""Writes of limits: the most that jobs of a tenant, a person or a label may do at once."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from kit.errors import FieldProblem, InvalidContentError, NotFoundError, StaleWriteError
from kit.intervals import DAY_MS
from quotas.core.limits import BOUNDS, LABEL_NAME, LimitRow, Scope
from quotas.models import Limit
from quotas.selectors import rows_by_id
from quotas.services.rows import whole_number
from tenancy.models import Tenant, User
from tenancy.services.records import ring, why_problems, write_audit

MOST = 1_000_000
LONGEST_MS = 366 * DAY_MS
LONGEST_TEXT = 255
LONGEST_NAME = 400


@dataclass(frozen=True, slots=True)
class Whose:
    """For whose jobs of the tenant's subtree a limit speaks (see `quotas.core.limits`)."""

    scope: str = Scope.TENANT.value
    user: User | None = None
    label: str = ""
    text: str = ""

    def __str__(self) -> str:
        return {
            Scope.USER.value: self.user.username if self.user else "each person",
            Scope.LABEL.value: f"{self.label}={self.text}",
        }.get(self.scope, "all jobs")


def read_whose(scope: object, username: object, label: object) -> Whose:
    """For whose jobs, of what people write: a scope, a person's name, a label as `name=text`.

    Raises:
        InvalidContentError: there is no such person, or the label is no name=text.
    """
    if not isinstance(scope, str):
        raise _wrong("/scope", "unknown_scope", f"Give one of {', '.join(Scope)}.")
    name, text = ("", "") if label is None else _pair(label)
    return Whose(scope, _person(username), name, text)


def _pair(label: object) -> tuple[str, str]:
    if not isinstance(label, str) or "=" not in label:
        raise _wrong("/label", "invalid_label", "Give name=text.")
    name, _, text = label.partition("=")
    return name, text


def _person(username: object) -> User | None:
    if username is None:
        return None
    is_name = isinstance(username, str) and "\0" not in username and len(username) <= LONGEST_NAME
    found = User.objects.filter(username=username).first() if is_name else None
    if found is None:
        raise _wrong("/user", "unknown_user", "There is no such person.")
    return found


def _wrong(pointer: str, code: str, words: str) -> InvalidContentError:
    problem = FieldProblem(pointer, code, words)
    return InvalidContentError("The limit is not valid.", errors=[problem])


def whose_of(limit: Limit) -> Whose:
    """For whose jobs a row speaks."""
    return Whose(limit.scope, limit.user, limit.label, limit.text)


def limit_problems(whose: Whose, bounds: Mapping[str, Any]) -> list[FieldProblem]:
    """Everything that one limit cannot say."""
    return [*_whose_problems(whose), *_bound_problems(bounds)]


def _check(whose: Whose, bounds: Mapping[str, Any], why: object) -> None:
    found = [*limit_problems(whose, bounds), *why_problems(why)]
    if found:
        raise InvalidContentError("The limit is not valid.", errors=found)


def _whose_problems(whose: Whose) -> Iterator[FieldProblem]:
    if whose.scope not in list(Scope):
        yield FieldProblem("/scope", "unknown_scope", f"Give one of {', '.join(Scope)}.")
        return
    if whose.user is not None and whose.scope != Scope.USER:
        yield FieldProblem("/user", "not_for_scope", "Name a person only with the scope user.")
    if whose.scope == Scope.LABEL:
        if LABEL_NAME.fullmatch(whose.label) is None:
            words = "Begin with a label's name: letters, digits and . _ / -, at most 63."
            yield FieldProblem("/label", "invalid_label", words)
        elif len(whose.text) > LONGEST_TEXT or not whose.text.isprintable():
            words = f"A label says at most {LONGEST_TEXT} printable letters."
            yield FieldProblem("/label", "invalid_label", words)
    elif whose.label or whose.text:
        yield FieldProblem("/label", "not_for_scope", "Give a label only with the scope label.")


def _bound_problems(bounds: Mapping[str, Any]) -> Iterator[FieldProblem]:
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if not given:
        words = "Bound something: running GPUs, running or waiting jobs, or the time limit."
        yield FieldProblem(f"/{BOUNDS[0]}", "nothing_bounded", words)
    for name, bound in given.items():
        is_time = name == "longest_ms"
        least, most = (1000, LONGEST_MS) if is_time else (1, MOST)
        what = "milliseconds" if is_time else "a whole number"
        problem = whole_number(name, bound, least, most, what)
        if problem:
            yield problem


@transaction.atomic
def set_limit(
    *,
    actor: User | None,
    tenant: Tenant,
    whose: Whose,
    running_gpus: int | None = None,
    running_jobs: int | None = None,
    waiting_jobs: int | None = None,
    longest_ms: int | None = None,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> Limit:
    """Sets the most that jobs of the tenant's subtree may do at once; None does not bound.

    `expected_revision` is the one the caller saw (0 = saw none; None = whatever is there). The same
    values again change nothing. What runs or waits already goes on, however much it is.

    Raises:
        InvalidContentError: naming each field that is wrong: a number out of its range (from 1 on:
            a tenant that is to start nothing is closed instead), nothing bounded, a person or label
            that does not go with the scope.
        StaleWriteError: somebody changed the limit since.
    """
    bounds = {
        "running_gpus": running_gpus,
        "running_jobs": running_jobs,
        "waiting_jobs": waiting_jobs,
        "longest_ms": longest_ms,
    }
    _check(whose, bounds, why)
    held = _lock(tenant, whose)
    _require_revision(held, expected_revision)
    before = bounds_of(held) if held else None
    limit = held or _row(tenant, whose)
    if before == bounds:
        return limit
    for name, bound in bounds.items():
        setattr(limit, name, bound)
    limit.revision = held.revision + 1 if held else 1
    limit.save()
    action = "update" if held else "create"
    _record(actor=actor, limit=limit, action=action, before=before, after=bounds, why=why, now=now)
    return limit


@transaction.atomic
def remove_limit(
    *,
    actor: User | None,
    tenant: Tenant,
    whose: Whose,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> None:
    """Takes the limit away: it keeps nobody from anything any more.

    Raises:
        NotFoundError: there is none.
        StaleWriteError: somebody changed it since.
        InvalidContentError: `why` is no text.
    """
    wrong = why_problems(why)
    if wrong:
        raise InvalidContentError("The reason is not valid.", errors=wrong)
    held = _lock(tenant, whose)
    if held is None:
        raise NotFoundError("The tenant has no such limit.")
    _require_revision(held, expected_revision)
    before = bounds_of(held)
    Limit.objects.filter(pk=held.pk).delete()
    _record(actor=actor, limit=held, action="remove", before=before, after=None, why=why, now=now)


def lock_limits(ids: Collection[int]) -> dict[int, LimitRow]:
    """These limits as they are now, by row id, locked until the caller's transaction ends.

    So those who count what a limit bounds, and then add to it, follow one another.
    """
    return rows_by_id(Limit.objects.filter(id__in=ids).select_for_update(no_key=True))


def bounds_of(limit: Limit) -> dict[str, int | None]:
    """What a row bounds."""
    return {name: getattr(limit, name) for name in BOUNDS}


def _row(tenant: Tenant, whose: Whose) -> Limit:
    return Limit(
        tenant=tenant, scope=whose.scope, user=whose.user, label=whose.label, text=whose.text
    )


def _lock(tenant: Tenant, whose: Whose) -> Limit | None:
    """The limit, if there is one. Its tenant is locked: two first writes must not collide."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    return (
        Limit.objects.select_for_update(of=("self",))
        .select_related("tenant", "user")
        .filter(
            tenant=tenant, scope=whose.scope, user=whose.user, label=whose.label, text=whose.text
        )
        .first()
    )


def _require_revision(held: Limit | None, expected: int | None) -> None:
    found = held.revision if held else 0
    if expected is not None and expected != found:
        seen = f"revision {found}" if held else "gone"
        raise StaleWriteError(f"The limit is {seen} now, not revision {expected}; read it again.")


def _record(
    *,
    actor: User | None,
    limit: Limit,
    action: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    why: str,
    now: datetime,
) -> None:
    """The audit entry; and what was decided on other limits is stale: its tenant has changed."""
    Tenant.objects.filter(pk=limit.tenant_id).update(revision=F("revision") + 1)
    write_audit(
        actor=actor,
        action=action,
        object_type="limit",
        object_id=f"{limit.tenant.path} {whose_of(limit)}",
        before=before,
        after=after,
        why=why,
        now=now,
    )
    ring()
