"""Trees of quotas from other systems: read, shown, or written whole with the tenants they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import yaml
from django.db import transaction

from kit.errors import ConflictError, InvalidContentError
from quotas.core.imports.kueue import parse_kueue
from quotas.core.imports.sacctmgr import parse_sacctmgr
from quotas.core.imports.tree import Found, Imported, NewTenant, assemble
from quotas.core.imports.volcano import parse_volcano
from quotas.core.table import MOST_ROWS, TableProblem
from quotas.services.tables import TablePlan, apply_table, lock_trees, refuse
from tenancy.models import Tenant, User
from tenancy.services.access import create_tenant

SYSTEMS = ("sacctmgr", "volcano", "kueue")
LONGEST_TEXT = 5_000_000


@dataclass(frozen=True, slots=True)
class ImportDone:
    """What an import makes: the tenants that were not there, and the rows that change."""

    tenants: tuple[NewTenant, ...]
    plan: TablePlan


def read_foreign(text: str, system: str, *, flavors: Mapping[str, str], under: str) -> Imported:
    """The tree that a text of a system (one of SYSTEMS) describes, and all that is to be told of it.

    `flavors` gives our flavor for each word of theirs; the tree goes below the tenant `under`.
    """
    if len(text) > LONGEST_TEXT:
        words = f"It is longer than {LONGEST_TEXT} letters."
        return Imported((), (), (), (TableProblem(0, "", "too_long", words),))
    found = _parse(text, system)
    if len(found.units) > MOST_ROWS:
        found.wrong(0, "", "too_many", f"Import at most {MOST_ROWS} at a time.")
    return assemble(found, flavors=flavors, under=under)


def _parse(text: str, system: str) -> Found:
    if system == "sacctmgr":
        return parse_sacctmgr(text)
    try:
        documents: Sequence[object] = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        found = Found()
        found.wrong(0, "", "invalid_yaml", f"It is not YAML: {str(error)[:300]}")
        return found
    return (parse_volcano if system == "volcano" else parse_kueue)(documents)


def try_import(*, imported: Imported, under: str, now: datetime) -> ImportDone:
    """What an import would make; nothing is kept.

    Raises:
        As `import_quotas`.
    """
    with transaction.atomic():
        done = import_quotas(actor=None, imported=imported, under=under, why="", now=now)
        transaction.set_rollback(True)
    return done


@transaction.atomic
def import_quotas(
    *, actor: User | None, imported: Imported, under: str, why: str, now: datetime
) -> ImportDone:
    """Makes the tenants that are not there yet and writes the rows, all or nothing.

    Tenants and rows that the import does not name stay as they are.

    Raises:
        InvalidContentError: what is wrong in it, by row and field; a flavor that no cluster has.
        ConflictError: the tenant `under` is not there.
        ChildrenAboveParentError: some tenants would be guaranteed more than the one above them.
    """
    refuse(imported.problems)
    lock_trees()
    tenants = {tenant.path: tenant for tenant in Tenant.objects.all()}
    if under and under not in tenants:
        raise ConflictError(f"There is no tenant {under} to put it under.")
    new = tuple(one for one in imported.tenants if one.path not in tenants)
    for one in new:
        tenants[one.path] = _make(actor, one, tenants, now)
    plan = apply_table(actor=actor, table=imported.rows, prune=False, why=why, now=now)
    return ImportDone(new, plan)


def _make(
    actor: User | None, one: NewTenant, tenants: Mapping[str, Tenant], now: datetime
) -> Tenant:
    above, _, name = one.path.rpartition("/")
    parent = tenants[above] if above else None
    title = one.title if one.title.isprintable() else ""
    try:
        return create_tenant(actor=actor, name=name, parent=parent, title=title, now=now)
    except InvalidContentError as error:
        raise InvalidContentError(f"{one.path}: {error.detail}", errors=error.errors) from None
