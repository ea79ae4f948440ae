"""What came of a replay as a table for a terminal."""

from collections.abc import Mapping, Sequence

from federation.core.replay import Outcome, TenantOutcome, Waits
from federation.core.replay.told import CLASSES
from kit.display import amount, gpu_hours
from kit.intervals import HOUR_MS

HEAD = (
    "tenant", "policy", "jobs", "never", "wait g P50", "P90", "wait s P50", "P90",
    "GPU-h g", "GPU-h s", "evicted", "lost GPU-h", "cost",
)  # fmt: skip
TOTAL = "(all)"
LEGEND = "Waits in seconds to the first start; g = guaranteed, s = spot; never = did not start."


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
    hours = [gpu_hours(one.gpu_ms.get(name, 0)) for name in CLASSES]
    return (
        one.tenant, letter, str(one.jobs), str(one.never), *_waits(one.waits), *hours,
        str(one.evictions), gpu_hours(one.lost_gpu_ms), amount(one.cost_nano),
    )  # fmt: skip


def _total_line(letter: str, outcome: Outcome) -> tuple[str, ...]:
    tenants = outcome.tenants
    hours = [gpu_hours(sum(one.gpu_ms.get(name, 0) for one in tenants)) for name in CLASSES]
    return (
        TOTAL, letter, str(sum(one.jobs for one in tenants)),
        str(sum(one.never for one in tenants)), *_waits(outcome.waits), *hours,
        str(sum(one.evictions for one in tenants)),
        gpu_hours(sum(one.lost_gpu_ms for one in tenants)),
        amount(sum(one.cost_nano for one in tenants)),
    )  # fmt: skip


def _waits(by_class: Mapping[str, Waits]) -> list[str]:
    return [
        f"{value / 1000:.0f}" if found else "-"
        for found in map(by_class.get, CLASSES)
        for value in ((found.p50_ms, found.p90_ms) if found else (0, 0))
    ]
