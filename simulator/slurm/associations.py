"""Associations as dbv0.0.38 shows and changes them; of their limits GrpTRES alone can be set.

As recorded of 22.05.8: a body that leaves out a limit which the account has makes slurmrestd
crash; an account that is its parent's first child already keeps its limits, and no error says so.
"""

import json
from typing import Any

from simulator.engine.admission import associations
from simulator.engine.model import World
from simulator.slurm import tres
from simulator.slurm.errors import Body, numbered

Row = dict[str, Any]
ROOT = "root"
NO_LIST = 9200  # told with status 200
_MODIFY = "slurmdb_associations_modify"


class CrashError(Exception):
    """slurmrestd died of the request."""


class NoJsonError(ValueError):
    """The body cannot be read."""


def accounts(world: World) -> list[str]:
    """All accounts below root, the one that was changed last ahead."""
    named = dict.fromkeys([*world.config.accounts, *(a for _, a, _ in associations(world))])
    moved = [account for account in world.changed_accounts if account in named]
    return moved + [account for account in named if account not in moved]


def association_rows(world: World) -> list[Row]:
    """One row an account, and one for every user in it."""
    rows = [_row(world, ROOT, None), _row(world, ROOT, ROOT)]
    rows += [_row(world, account, None) for account in accounts(world)]
    return rows + [_row(world, a, user) for _, a, user in associations(world)]


def tres_rows(world: World) -> list[Row]:
    """What is counted there: CPUs and the like, GPUs untyped and typed."""
    basic = dict.fromkeys(("cpu", "mem", "energy", "node", "billing"), 0)
    gpus = dict.fromkeys(tres.gpu_counts(1, world.config), 0)
    return tres.listed(basic | gpus)


def user_rows(world: World) -> list[Row]:
    """Everybody in an association; who may change all of them is told by the configuration.

    SlurmUser is not listed there: it needs no right.
    """
    found = associations(world)
    names = dict.fromkeys([ROOT, *(user for _, _, user in found)])
    admins = set(world.config.admins)
    return [
        {
            "administrator_level": "Administrator" if name in admins else "None",
            "associations": [
                {"account": a, "cluster": world.config.name, "partition": None, "user": name}
                for _, a, user in [(0, ROOT, ROOT), *found]
                if user == name
            ],
            "coordinators": [],
            "default": {
                "account": next((a for _, a, user in found if user == name), ROOT),
                "wckey": "",
            },
            "flags": [],
            "name": name,
        }
        for name in names
    ]


def change(world: World, body: bytes, *, is_admin: bool) -> list[Body]:
    """Lays each association of the body over the one of that name; what is wrong, if anything.

    Raises:
        NoJsonError: it is no JSON.
        CrashError: the daemon is gone, and with it the answer.
    """
    try:
        wanted = json.loads(body)
    except ValueError as error:
        raise NoJsonError from error
    named = wanted.get("associations") if isinstance(wanted, dict) else None
    if not isinstance(named, list):
        return [numbered(NO_LIST, "Query parameter not found", "associations")]
    for one in named:
        errors = _change_one(world, one, is_admin=is_admin)
        if errors:
            return errors
    return []


def _change_one(world: World, one: Row, *, is_admin: bool) -> list[Body]:
    rows = one.get("max", {}).get("tres", {}).get("total") or []
    counted = {(row["type"], row["name"]): row["id"] for row in tres_rows(world)}
    for row in rows:
        kind, name = row.get("type"), row.get("name")
        if (kind, name) not in counted:
            text = f"Couldn't find TRES matching name:{name} type:{kind}"
            return [
                numbered(2115, text, "_for_each_parse_tres_count"),
                numbered(9001, "Failed to parse field 'max/tres/total'", "_parser_run"),
            ]
    account = one.get("account", "")
    if account not in accounts(world) or one.get("cluster") != world.config.name:
        source = "slurmdb_associations_add"
        return [numbered(-1 if is_admin else 2002, None, source)]
    if world.account_limits.get(account) and not rows:
        raise CrashError
    if not is_admin:
        return [numbered(2002, None, _MODIFY)]
    if accounts(world)[0] != account:  # else it is where it is to be moved, and all is dropped
        limits = {_key(row): int(row["count"]) for row in rows if int(row["count"]) >= 0}
        world.account_limits[account] = limits
        moved = [other for other in world.changed_accounts if other != account]
        world.changed_accounts = [account, *moved]
        world.sequence += 1
    return []


def _key(row: Row) -> str:
    return f"gres/{row['name']}" if row["type"] == "gres" else str(row["type"])


def _row(world: World, account: str, user: str | None) -> Row:
    is_root = account == ROOT
    qos = ["normal"] if is_root else list(world.config.qos)
    limits = {} if user else world.account_limits.get(account, {})
    default = next((a for _, a, other in associations(world) if other == user), ROOT)
    return {
        "account": account,
        "cluster": world.config.name,
        "default": {"qos": None if is_root else next(iter(world.config.qos), None)},
        "flags": [],
        "max": {
            "jobs": {
                "per": dict.fromkeys(("count", "accruing", "submitted", "wall_clock")),
                "active": None,
                "accruing": None,
                "total": None,
            },
            "tres": {
                "total": tres.listed(limits),
                "minutes": {"per": {"job": []}, "total": []},
                "group": {"minutes": [], "active": []},
                "per": {"job": [], "node": []},
            },
            "per": {"account": {"wall_clock": None}},
        },
        "is_default": int(user is not None and account == default),
        "min": {"priority_threshold": None},
        "parent_account": None if user or is_root else ROOT,
        "partition": None,
        "priority": None,
        "qos": qos,
        "shares_raw": 1,
        "usage": None,
        "user": user,
    }
