"""What would help against a reason, for people: worked out when they read it."""

from collections.abc import Mapping
from typing import Any

from clusters.core.capabilities import LACK_FIXES


def fix_for(reason: Mapping[str, Any]) -> dict[str, Any] | None:
    """What would help against a stored reason: `{"description", "change", "effect"}` or None.

    `change` is a merge patch to the job's body, None when it is not the job that must change.
    """
    available = reason.get("available") or 0
    description, change, effect = _FIXES.get(reason["code"], ("", None, ""))
    if reason["code"] in ("no_capacity", "gang_too_large"):
        if not available:
            return None
        change = {"gang": {"nodes": available}}
        description = f"Ask for at most {available} nodes."
    elif reason.get("unit") in LACK_FIXES:
        description = LACK_FIXES[reason["unit"]]
    elif reason["code"] == "limit_reached" and reason.get("unit") not in ("gpus", "jobs"):
        change = {"time_limit": available}
        other = "another cluster" if reason.get("cluster") else "have the limit raised"
        description = f"Ask for at most {available} seconds, or {other}."
    if not description:
        return None
    return {"description": description, "change": change, "effect": effect}


_SOON = "It may start as soon as the nodes are free."
_FIXES: Mapping[str, tuple[str, dict[str, Any] | None, str]] = {
    "quota_exhausted": (
        "Let it run as spot too, or have the guarantee raised.",
        {"class": "auto"},
        "It may start on GPUs that others leave idle, and give them back when they are needed.",
    ),
    "borrowing_limit": (
        "Let it use the guarantee too, or have the borrowing limit raised.",
        {"class": "auto"},
        "It may start inside the tenant's guarantee.",
    ),
    "no_capacity": ("", None, "It would fit now."),
    "gang_too_large": ("", None, "It could run there."),
    "topology_unavailable": (
        "Let it span a wider tier.",
        {"topology": {"required": None}},
        "It would fit now, over slower links.",
    ),
    "limit_reached": ("Wait until some of that ended, or have the limit raised.", None, _SOON),
    "not_before": ("Take the date away.", {"not_before": None}, _SOON),
    "backend_cannot_run": (
        "Ask an admin to name your account on this cluster.", None, _SOON,
    ),
    "checkpoint_unreachable": (
        "Bring the checkpoint's store there, or wait for a cluster that has it.", None, _SOON,
    ),
    "store_unavailable": (
        "Bring the data there, or let the job go to a cluster that has it.", None, _SOON,
    ),
    "price_missing": ("Ask an admin to set a price.", None, _SOON),
    "tenant_closed": ("Ask an owner to open the tenant.", None, _SOON),
    "flavor_not_accepted": (
        "Accept a flavor that a cluster has, or more clusters.", None, _SOON,
    ),
}  # fmt: skip
