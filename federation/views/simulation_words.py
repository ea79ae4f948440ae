"""What came of a simulation in words: the policies side by side, in all and tenant by tenant."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kit.display import NONE, amount, gpu_hours, number, span
from kit.money import to_nano
from quotas.core.cohort import GUARANTEED, SPOT

Outcome = Mapping[str, Any]
LETTERS = "AB"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number in all: its name, its text under each policy, and how much more B has than A."""

    name: str
    texts: tuple[str, ...]
    change: str


@dataclass(frozen=True, slots=True)
class Line:
    """A tenant under one policy. Waits are P50 and P90 by class, None = no job started in it."""

    letter: str
    jobs: int
    never: int
    waits: tuple[tuple[str, str] | None, ...]
    hours: tuple[str, ...]
    evictions: int
    lost: str
    cost: str


def compared(outcomes: Sequence[Outcome]) -> list[Measure]:
    """The sums of all tenants, a measure a row."""
    if not outcomes:
        return []
    totals = [one["total"] for one in outcomes]
    hours = {name: [one["gpu_ms"][name] for one in totals] for name in (GUARANTEED, SPOT)}
    costs = [_nano(one) for one in totals]
    return [
        _counted("Jobs", [one["jobs"] for one in totals]),
        _counted("Never started", [one["never"] for one in totals]),
        *_waited(totals),
        _measure("GPU-hours, guaranteed", hours[GUARANTEED], gpu_hours),
        _measure("GPU-hours, spot", hours[SPOT], gpu_hours),
        _counted("Evictions", [one["evictions"] for one in totals]),
        _measure("GPU-hours of work lost", [one["lost_gpu_ms"] for one in totals], gpu_hours),
        _measure("Cost", costs, amount),
        _measure("Jain's index", [one["fairness"] for one in outcomes], lambda x: f"{x:.4f}"),
        _measure("First arrival to last end", [one["span"] for one in outcomes], span),
    ]


def _waited(totals: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    """Waits of all tenants' jobs together, by class: none where no job started in it.

    Results that were kept before they were counted do not tell.
    """
    for name in (GUARANTEED, SPOT):
        for point in ("p50", "p90"):
            found = [one.get("waits", {}).get(name, {}).get(point) for one in totals]
            yield _measure(f"Wait {point.upper()}, {name}", found, _seconds)


def _seconds(value: float | None) -> str:
    return NONE if value is None else span(int(value))


def _counted(name: str, values: Sequence[int]) -> Measure:
    return _measure(name, values, number)


def _measure(name: str, values: Sequence[Any], words: Any) -> Measure:
    texts, change = tuple(map(words, values)), ""
    if len(values) > 1 and None not in values:
        more = values[1] - values[0]
        sign = "+" if more > 0 else "\N{MINUS SIGN}"
        change = "same" if texts[0] == texts[1] else f"{sign}{words(abs(more))}"
    return Measure(name, texts, change)


def tenants_of(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Line]]]:
    """Each tenant by path, with a line a policy."""
    lines: dict[str, list[Line]] = {}
    for letter, outcome in zip(LETTERS, outcomes, strict=False):
        for tenant in outcome["tenants"]:
            lines.setdefault(tenant["tenant"], []).append(_line(letter, tenant))
    return sorted(lines.items())


def _line(letter: str, tenant: Mapping[str, Any]) -> Line:
    return Line(
        letter=letter,
        jobs=tenant["jobs"],
        never=tenant["never"],
        waits=tuple(_waits(tenant["waits"].get(name)) for name in (GUARANTEED, SPOT)),
        hours=tuple(gpu_hours(tenant["gpu_ms"].get(name, 0)) for name in (GUARANTEED, SPOT)),
        evictions=tenant["evictions"],
        lost=gpu_hours(tenant["lost_gpu_ms"]),
        cost=amount(_nano(tenant)),
    )


def _waits(found: Mapping[str, Any] | None) -> tuple[str, str] | None:
    return None if found is None else (span(int(found["p50"])), span(int(found["p90"])))


def _nano(told: Mapping[str, Any]) -> int:
    return to_nano(Decimal(told["cost"]["amount"]))
