"""What a change of quotas does, and what was changed, in words for the page."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from federation.selectors.whatif import Effect
from federation.views.limit_form import LABELS
from kit.display import duration, number
from quotas.selectors import Act, mirrored_clusters
from quotas.services.limit_edits import LimitPlan
from quotas.services.tables import TablePlan
from tenancy.models import AuditEntry, User
from tenancy.selectors.access import visible_tenants

MOST_JOBS = 20
NAMES = {
    "guaranteed": "guaranteed",
    "borrowing_limit": "borrowing limit",
    "lending_limit": "lending limit",
    "weight": "weight",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that feel a change alike: those that the person may see, and how many there are."""

    title: str
    jobs: tuple[Mapping[str, Any], ...]
    count: int

    @property
    def hidden(self) -> int:
        """How many are not named."""
        return self.count - len(self.jobs)


@dataclass(frozen=True)
class Plan:
    """What would change: rows, jobs of the next cycle, and warnings; `file` is kept for saving."""

    changes: tuple[tuple[str, str], ...] = ()
    groups: tuple[Group, ...] = ()
    warnings: tuple[str, ...] = ()
    file: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ActWords:
    """An act of the history. `can_undo`: the person manages all that it changed."""

    act: Act
    changes: tuple[tuple[str, str], ...]
    can_undo: bool
    wrong: tuple[str, ...] = field(default=())


def plan_words(
    user: User,
    plan: TablePlan,
    effect: Effect,
    warnings: Iterable[str],
    file: Mapping[str, Any] | None,
) -> Plan:
    """A plan in words, its jobs as far as the person may see them."""
    changes = tuple(
        (
            _where(change.row.tenant, change.row.flavor, change.row.cluster),
            _differences(change.before, change.after, NAMES, _value),
        )
        for change in plan.changes
    )
    return Plan(changes, groups_of(user, effect), tuple(warnings), file)


def limit_plan_words(user: User, plan: LimitPlan, effect: Effect) -> Plan:
    """The same of a plan of limits."""
    changes = tuple(
        (
            f"{change.edit.tenant.path}, {change.edit.whose}",
            _differences(change.before, change.after, LABELS, _bound),
        )
        for change in plan.changes
    )
    return Plan(changes, groups_of(user, effect))


def limit_act_words(act: Act) -> ActWords:
    """An act of the history of limits in words."""
    changes = (
        (
            ", ".join(entry.object_id.split(" ", 1)),
            _differences(entry.before, entry.after, LABELS, _bound),
        )
        for entry in reversed(act.entries)
    )
    return ActWords(act, tuple(changes), can_undo=False)


def not_followed() -> list[str]:
    """What to say when quotas were changed: on which clusters limits were set that do not follow."""
    return [
        f"Limits that were set on accounts of {name} do not follow quotas by themselves:"
        f" an admin looks at /clusters/{name}/quota-mirror."
        for name in mirrored_clusters()
    ]


def groups_of(user: User, effect: Effect) -> tuple[Group, ...]:
    """What the next cycle would do otherwise; jobs are named as far as the person may see them."""
    seen = None
    if not user.is_superuser:
        seen = set(visible_tenants(user).values_list("path", flat=True))
    guaranteed = [job for job, name in effect.started.items() if name == "guaranteed"]
    spot = [job for job, name in effect.started.items() if name != "guaranteed"]
    groups = (
        _group("Start as guaranteed", guaranteed, effect, seen),
        _group("Start as spot", spot, effect, seen),
        _group("Are promoted to guaranteed", effect.promoted, effect, seen),
        _group("Get nodes that others have to leave", list(effect.claimed), effect, seen),
        _group("Are evicted for them", effect.reclaimed, effect, seen),
        _group("Do not start any more", effect.held_back, effect, seen),
    )
    return tuple(one for one in groups if one.count)


def act_words(act: Act, managed: Mapping[UUID, str]) -> ActWords:
    """An act of the history in words."""
    paths = set(managed.values())
    can_undo = all(_path(entry) in paths for entry in act.entries)
    return ActWords(act, tuple(_entries(act)), can_undo)


def _group(title: str, keys: Iterable[int], effect: Effect, seen: set[str] | None) -> Group:
    found = [effect.jobs[key] for key in keys]
    named = [job for job in found if seen is None or job["tenant__path"] in seen]
    return Group(title, tuple(named[:MOST_JOBS]), len(found))


def _path(entry: AuditEntry) -> str:
    return entry.object_id.rsplit(" ", 1)[0]


def _entries(act: Act) -> Iterator[tuple[str, str]]:
    for entry in reversed(act.entries):
        path, flavor = entry.object_id.rsplit(" ", 1)
        cluster = (entry.after or entry.before or {}).get("cluster")
        yield _where(path, flavor, cluster), _differences(entry.before, entry.after, NAMES, _value)


def _where(tenant: str, flavor: str, cluster: str | None) -> str:
    return f"{tenant}, {flavor}" + (f" on {cluster}" if cluster else "")


def _differences(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    names: Mapping[str, str],
    told: Callable[[str, Any], str],
) -> str:
    """Such as `guaranteed 64 → 32, weight 1 → 2`; `names` are the fields, `told` writes a value."""

    def all_of(values: Mapping[str, Any]) -> str:
        given = [name for name in names if values.get(name) is not None]
        return ", ".join(f"{names[name]} {told(name, values[name])}" for name in given)

    if after is None:
        return "taken away (" + all_of(before or {}) + ")"
    if before is None:
        return "new: " + all_of(after)
    return ", ".join(
        f"{names[name]} {told(name, before.get(name))} → {told(name, after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _value(_: str, value: object) -> str:
    return "none" if value is None else str(value)


def _bound(name: str, value: int | None) -> str:
    return "any" if value is None else duration(value) if name == "longest_ms" else number(value)
