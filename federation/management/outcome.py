"""What came of a replay, for people and for programs."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from federation.core.replay import Outcome, TenantOutcome, Waits
from kit.intervals import HOUR_MS
from quotas.core.cohort import GUARANTEED, SPOT

CLASSES = (GUARANTEED, SPOT)
HEAD = (
    "tenant", "policy", "jobs", "never", "wait g P50", "P90", "wait s P50", "P90",
    "GPU-h g", "GPU-h s", "evicted", "lost GPU-h", "cost",
)  # fmt: skip
TOTAL = "(all)"
LEGEND = "Waits in seconds to the first start; g = guaranteed, s = spot; never = did not start."


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Per tenant and in all; times in seconds, GPU time in milliseconds and hours, money as text."""
    return {
        "tenants": [_tenant_json(one, outcome.currency) for one in outcome.tenants],
        "total": _total_json(outcome),
        "fairness": round(outcome.fairness, 6),
        "span": outcome.span_ms // 1000,
        "cycles": outcome.cycles,
    }


def _tenant_json(one: TenantOutcome, currency: str) -> dict[str, Any]:
    return {
        "tenant": one.tenant,
        "weight": one.weight,
        "jobs": one.jobs,
        "finished": one.finished,
        "never": one.never,
        "waits": {name: _waits_json(waits) for name, waits in one.waits.items()},
        "gpu_ms": dict(one.gpu_ms),
        "gpu_hours": {name: _hours(gpu_ms) for name, gpu_ms in one.gpu_ms.items()},
        "evictions": one.evictions,
        "lost_gpu_ms": one.lost_gpu_ms,
        "cost": {"amount": _money(one.cost_nano), "currency": currency},
    }


def _waits_json(waits: Waits) -> dict[str, Any]:
    return {"jobs": waits.jobs, "p50": waits.p50_ms / 1000, "p90": waits.p90_ms / 1000}


def _total_json(outcome: Outcome) -> dict[str, Any]:
    tenants = outcome.tenants
    cost = _money(sum(one.cost_nano for one in tenants))
    return {
        "jobs": sum(one.jobs for one in tenants),
        "never": sum(one.never for one in tenants),
        "gpu_ms": {name: sum(one.gpu_ms.get(name, 0) for one in tenants) for name in CLASSES},
        "evictions": sum(one.evictions for one in tenants),
        "lost_gpu_ms": sum(one.lost_gpu_ms for one in tenants),
        "cost": {"amount": cost, "currency": outcome.currency},
    }


def as_table(outcomes: Sequence[tuple[str, Outcome]]) -> str:
    """A line a tenant and policy, the policies of a tenant one below the other; then the sums."""
    letters = "AB"
    lines: list[tuple[str, ...]] = [HEAD]
    for path in sorted({one.tenant for _, outcome in outcomes for one in outcome.tenants}):
        for letter, (_, outcome) in zip(letters, outcomes, strict=False):
            lines += [_line(letter, one) for one in outcome.tenants if one.tenant == path]
    lines += [
        _total_line(letter, outcome)
        for letter, (_, outcome) in zip(letters, outcomes, strict=False)
    ]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEAD))]
    text = [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    for letter, (name, outcome) in zip(letters, outcomes, strict=False):
        hours = outcome.span_ms / HOUR_MS
        text.append(
            f"{letter} = {name}: Jain's index {outcome.fairness:.3f}, {hours:.1f} h, "
            f"money in {outcome.currency}."
        )
    return "\n".join([*text, LEGEND])


def _line(letter: str, one: TenantOutcome) -> tuple[str, ...]:
    waits = [
        f"{value / 1000:.0f}" if found else "-"
        for found in map(one.waits.get, CLASSES)
        for value in ((found.p50_ms, found.p90_ms) if found else (0, 0))
    ]
    hours = [_hours(one.gpu_ms.get(name, 0)) for name in CLASSES]
    return (
        one.tenant, letter, str(one.jobs), str(one.never), *waits, *hours,
        str(one.evictions), _hours(one.lost_gpu_ms), _money(one.cost_nano, 2),
    )  # fmt: skip


def _total_line(letter: str, outcome: Outcome) -> tuple[str, ...]:
    tenants = outcome.tenants
    hours = [_hours(sum(one.gpu_ms.get(name, 0) for one in tenants)) for name in CLASSES]
    return (
        TOTAL, letter, str(sum(one.jobs for one in tenants)),
        str(sum(one.never for one in tenants)), "", "", "", "", *hours,
        str(sum(one.evictions for one in tenants)),
        _hours(sum(one.lost_gpu_ms for one in tenants)),
        _money(sum(one.cost_nano for one in tenants), 2),
    )  # fmt: skip


def _hours(gpu_ms: int) -> str:
    return f"{Decimal(gpu_ms) / HOUR_MS:.2f}"


def _money(nano: int, digits: int = 6) -> str:
    return f"{Decimal(nano) / 1_000_000_000:.{digits}f}"
