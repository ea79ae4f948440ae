"""Limits on GPUs of Slurm's accounts (GrpTRES of associations), over slurmdb REST.

What 22.05.8 does with `POST associations`, run live:

- It takes the one association that is named, lays what is sent over it, and orders slurmdbd to set
  the difference. A kind of TRES limit that the association has and the body leaves out makes
  slurmrestd crash, so all of them are sent back as they were read.
- What it read first counts inherited values as the association's own: QOS and per-job limits that
  came from the parent become explicit. An account that may inherit some is not written here.
- It also orders the account to be moved below its own parent. Where it is the parent's first child
  already, slurmdbd drops the whole order, and the answer is 200 without errors: so all is read back,
  and what was dropped is sent again after a sibling among those wanted, which then stands first.
- Of several associations in one body some can be dropped so: one goes at a time.

Other versions have not been run live: they are read, and the commands are shown.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusters.backends.slurm.client import SlurmClient
from clusters.backends.slurm.values import Json, number, words
from clusters.core.backend import BackendAmbiguousError, BackendError, BackendRejectedError
from clusters.core.limits import ANY_GPU, LimitHolder, LimitsSeen, Obstacle

NO_RIGHT = "2002"
NOT_TAKEN = "Slurm said yes and changed nothing, as 22.05 does to its parent's first account"
_ADMINS = {"operator", "administrator"}
# Kinds of limits that an account inherits from the one above, and so cannot be told from its own.
_INHERITED = (("minutes", "per", "job"), ("minutes", "total"), ("per", "job"), ("per", "node"))


def read_limits(client: SlurmClient) -> LimitsSeen:
    """All limits on GPUs, and whether they can be set over REST. Three bulk reads.

    Raises:
        BackendUnavailableError, BackendRejectedError: accounting does not answer, or there is none.
    """
    raw = _associations(client)
    tres = client.read("tres", accounting=True)
    counted = {
        resource for row in (*tres.rows("TRES"), *tres.rows("tres")) if (resource := _resource(row))
    }
    name = _cluster_of(client, raw)
    rows = [row for row in raw if row.get("cluster") == name]
    return LimitsSeen(name, tuple(_holders(rows)), frozenset(counted), right_to_write(client))


def right_to_write(client: SlurmClient) -> Obstacle | None:
    """Why this connection cannot set limits; None = nothing is known to keep it from it.

    SlurmUser and root may without being listed as users; who is not listed finds out by trying.
    """
    if not client.dialect.sets_limits:
        told = f"writing limits over {client.dialect.api} has not been run live"
        return Obstacle("api_version", told, "run the commands on a host with sacctmgr")
    account = client.connection.account
    for row in client.read("users", accounting=True).rows("users"):
        if row.get("name") == account:
            levels = {level.lower() for level in words(row.get("administrator_level"))}
            return None if levels & _ADMINS else no_right(account)
    return None


def no_right(account: str) -> Obstacle:
    """The connection's account may not change associations."""
    fix = f"sacctmgr modify user where name={shlex.quote(account)} set AdminLevel=Operator"
    told = f"{account} may not change associations: it is no operator of Slurm's accounting"
    return Obstacle("no_right", told, f"{fix}, or let Muster connect as SlurmUser")


def set_limits(
    client: SlurmClient, wanted: Mapping[str, Mapping[str, int]], name: str
) -> dict[str, str]:
    """Sets limits of accounts of the cluster of this name; of each, why it was not taken ("" = is).

    What is there already is not sent, unless to stand before a sibling whose order was dropped.
    Other limits, people, parents and shares stay as they are.

    Raises:
        BackendError: before anything was written.
    """
    setting = _Setting(client, wanted, name)
    setting.all_once()
    setting.what_was_dropped()
    return setting.told()


class _Setting:
    """One run of `set_limits`: what is wanted, what was read last, what was told of each account."""

    def __init__(
        self, client: SlurmClient, wanted: Mapping[str, Mapping[str, int]], name: str
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._name = name
        self._told = dict.fromkeys(wanted, "")
        self._is_written = False
        self._first: dict[str, str] = {}  # by parent, the child that stands first by our doing
        self._look()

    def all_once(self) -> None:
        """Sends what differs."""
        for account in self._left():
            self._send(account)

    def what_was_dropped(self) -> None:
        """Sends again what was not taken, after a sibling has been put before it."""
        if not self._left():
            return
        self._look()
        for account in self._left():
            beside = (one for one in self._wanted if self._may_stand_before(one, account))
            is_first = self._first.get(self._parent(account)) == account
            if is_first and (sibling := next(beside, None)) is not None:
                self._send(sibling)
            self._send(account)

    def told(self) -> dict[str, str]:
        """What came of each account, read back."""
        if self._is_written:
            try:
                self._look()
            except BackendError as error:
                unread = f"not read back: {error.words}"
                return {one: said or unread for one, said in self._told.items()}
        return {
            one: said or ("" if self._holds(one) else NOT_TAKEN) for one, said in self._told.items()
        }

    def _look(self) -> None:
        rows = _associations(self._client)
        self._rows = [row for row in rows if row.get("cluster") == self._name]
        self._holders = {one.account: one for one in _holders(self._rows) if not one.user}

    def _left(self) -> list[str]:
        return [one for one in self._wanted if not self._told[one] and not self._holds(one)]

    def _holds(self, account: str) -> bool:
        held = self._holders[account].gpus if account in self._holders else {}
        return all(held.get(resource) == count for resource, count in self._wanted[account].items())

    def _parent(self, account: str) -> str:
        return self._holders[account].parent if account in self._holders else ""

    def _may_stand_before(self, sibling: str, account: str) -> bool:
        return (
            sibling != account
            and self._parent(sibling) == self._parent(account)
            and self._holds(sibling)
            and not self._holders[sibling].fixed
        )

    def _send(self, account: str) -> None:
        """One order. No right to it is no right to any other."""
        if self._told[account]:
            return
        try:
            _write(
                self._client,
                _row_of(self._rows, account),
                self._holders.get(account),
                self._wanted[account],
            )
        except BackendAmbiguousError:
            pass  # reading back tells
        except BackendError as error:
            if not self._is_written and not isinstance(error, BackendRejectedError):
                raise
            are_refused = self._left() if error.code == NO_RIGHT else [account]
            self._told |= dict.fromkeys(are_refused, error.words)
            return
        self._is_written = True
        self._first[self._parent(account)] = account


def limit_command(name: str, account: str, gpus: Mapping[str, int]) -> str:
    """What an admin types to set these limits where REST cannot: sacctmgr keeps all others."""
    limits = ",".join(f"gres/{resource}={count}" for resource, count in sorted(gpus.items()))
    where = f"where name={shlex.quote(account)} cluster={shlex.quote(name)}"
    return f"sacctmgr -i modify account {where} set GrpTRES={limits}"


def _write(
    client: SlurmClient, row: Json | None, holder: LimitHolder | None, gpus: Mapping[str, int]
) -> None:
    if row is None or holder is None:
        raise BackendRejectedError("there is no such account in its accounting", code="no_account")
    if holder.fixed:
        raise BackendRejectedError(holder.fixed, code="fixed")
    tres = (row.get("max") or {}).get("tres")
    if not tres:
        raise BackendRejectedError("its limits cannot be read", code="unreadable")
    others = [one for one in _at(row, ("total",)) if _resource(one) not in gpus]
    ours = [{"type": "gres", "name": name, "count": count} for name, count in sorted(gpus.items())]
    body = {
        "account": row["account"],
        "cluster": row["cluster"],
        "user": "",
        "partition": "",
        "max": {"tres": {**tres, "total": others + ours}},
    }
    client.write(
        "POST",
        "associations",
        client.connection.account,
        {"associations": [body]},
        fine=(),
        accounting=True,
    )


def _associations(client: SlurmClient) -> list[Json]:
    return client.read("associations", accounting=True).rows("associations")


def _cluster_of(client: SlurmClient, rows: Sequence[Json]) -> str:
    """What Slurm calls this cluster: the option, the only one there is, or the one of our name."""
    named = {str(row["cluster"]) for row in rows if row.get("cluster")}
    asked = client.connection.options.get("cluster_name", client.connection.name)
    return next(iter(named)) if len(named) == 1 else asked


def _row_of(rows: Sequence[Json], account: str) -> Json | None:
    found = (row for row in rows if row.get("account") == account and not _is_below(row))
    return next(found, None)


def _is_below(row: Json) -> bool:
    """Whether it is of a person or of a partition, not of an account itself."""
    return bool(row.get("user") or row.get("partition"))


def _holders(rows: Sequence[Json]) -> Iterator[LimitHolder]:
    accounts = {str(row["account"]): row for row in rows if not _is_below(row)}
    for row in rows:
        parent = str(row.get("parent_account") or "")
        yield LimitHolder(
            account=str(row.get("account") or ""),
            user=str(row.get("user") or ""),
            parent=parent,
            gpus=_gpus(row),
            is_default=_is_default(row),
            fixed="" if _is_below(row) else _fixed(row, accounts.get(parent)),
        )


def _is_default(row: Json) -> bool:
    told = row.get("is_default")
    return bool(number(told) if isinstance(told, dict) else told)


def _gpus(row: Json) -> dict[str, int]:
    total = _at(row, ("total",))
    return {
        resource: count
        for one in total
        if (resource := _resource(one)) and (count := number(one.get("count"))) is not None
    }


def _resource(tres: Json) -> str:
    """`gpu` or `gpu:h100`; "" for what is no GPU."""
    name = str(tres.get("name") or "")
    is_gpu = name == ANY_GPU or name.startswith(f"{ANY_GPU}:")
    return name if tres.get("type") == "gres" and is_gpu else ""


def _fixed(row: Json, parent: Json | None) -> str:
    """Why writing this account over REST could write more than its limit; "" = it could not."""
    if parent is None:
        return "it has no account above it"
    if set(row.get("qos") or ()) == set(parent.get("qos") or ()):
        return f"its QOS may come from {parent['account']}, and would be written down as its own"
    for path in _INHERITED:
        if _same(_at(row, path), _at(parent, path)):
            kind = ".".join(path)
            return f"its limit {kind} may come from {parent['account']}, and would become its own"
    return ""


def _at(row: Json, path: Sequence[str]) -> list[Json]:
    here: Any = (row.get("max") or {}).get("tres")
    for part in path:
        here = (here or {}).get(part)
    return list(here or ())


def _same(own: Sequence[Json], above: Sequence[Json]) -> bool:
    """Whether a limit of the one is also the other's."""
    return bool(
        {(one.get("id"), one.get("count")) for one in own}
        & {(one.get("id"), one.get("count")) for one in above}
    )
