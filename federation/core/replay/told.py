"""What came of a replay, for programs: JSON in the API's forms."""

from collections.abc import Mapping
from typing import Any

from federation.core.replay.books import Outcome, TenantOutcome, Waits
from kit.money import gpu_hours, money
from quotas.core.cohort import GUARANTEED, SPOT

CLASSES = (GUARANTEED, SPOT)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Per tenant and in all; times in seconds, GPU time and money exact, as everywhere."""
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
        "waits": _waits_json(one.waits),
        "gpu_ms": dict(one.gpu_ms),
        "gpu_hours": {name: gpu_hours(gpu_ms) for name, gpu_ms in one.gpu_ms.items()},
        "evictions": one.evictions,
        "lost_gpu_ms": one.lost_gpu_ms,
        "cost": money(one.cost_nano, currency),
    }


def _waits_json(by_class: Mapping[str, Waits]) -> dict[str, Any]:
    return {
        name: {"jobs": waits.jobs, "p50": waits.p50_ms / 1000, "p90": waits.p90_ms / 1000}
        for name, waits in by_class.items()
    }


def _total_json(outcome: Outcome) -> dict[str, Any]:
    tenants = outcome.tenants
    cost_nano = sum(one.cost_nano for one in tenants)
    gpu_ms = {name: sum(one.gpu_ms.get(name, 0) for one in tenants) for name in CLASSES}
    return {
        "jobs": sum(one.jobs for one in tenants),
        "never": sum(one.never for one in tenants),
        "finished": sum(one.finished for one in tenants),
        "waits": _waits_json(outcome.waits),
        "gpu_ms": gpu_ms,
        "gpu_hours": {name: gpu_hours(spent) for name, spent in gpu_ms.items()},
        "evictions": sum(one.evictions for one in tenants),
        "lost_gpu_ms": sum(one.lost_gpu_ms for one in tenants),
        "cost": money(cost_nano, outcome.currency),
    }
