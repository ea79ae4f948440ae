"""Moving a tenant with all below it to another place of the tree.

`plan_move` locks and refuses, `write_move` writes; between them, in the same transaction, the apps
above settle what hangs on the old place (`federation.services.move`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from kit.bulk import Statement, run
from kit.errors import ConflictError, InvalidContentError, StaleWriteError
from tenancy.models import Tenant, User
from tenancy.services.access import LONGEST_PATH
from tenancy.services.records import Change, ring, why_problems, write_audit, write_events

# A path is text, so what follows the old path of the top goes on behind the new one.
_MOVE = """
UPDATE tenancy_tenant SET
    path = %s || substr(path, %s),
    lineage = %s::uuid[] || lineage[%s:],
    parent_id = CASE WHEN id = %s THEN %s ELSE parent_id END,
    revision = revision + 1
WHERE lineage @> ARRAY[%s]::uuid[]
"""


@dataclass(frozen=True, slots=True)
class Move:
    """A move that holds: the tenant as it is, where it goes, and every lineage as it was.

    `above` are the ids over its new place. `lineages` has the tenant and all below it.
    """

    tenant: Tenant
    parent: Tenant | None
    path: str
    above: tuple[UUID, ...]
    lineages: Mapping[UUID, tuple[UUID, ...]]

    @property
    def is_none(self) -> bool:
        """Whether the tenant is there already."""
        return self.path == self.tenant.path


def plan_move(
    *, tenant: Tenant, parent: Tenant | None, expected_revision: int | None, why: str
) -> Move:
    """The move of a tenant below `parent` (None = to the top), checked under locks on the tree.

    To be called in the transaction that writes it.

    Raises:
        InvalidContentError: the new place is the tenant itself or below it, or the paths would be
            too long, or the reason is none.
        StaleWriteError: somebody changed the tenant since.
        ConflictError: another tenant has the name there.
    """
    if wrong := why_problems(why):
        raise InvalidContentError("The reason is not valid.", errors=wrong)
    # Every tenant, in the order in which plans are committed: nobody else changes the tree now,
    # and what was waited for is read anew.
    list(Tenant.objects.order_by("id").select_for_update(no_key=True).values_list("id"))
    held = Tenant.objects.get(pk=tenant.pk)
    if expected_revision not in (None, held.revision):
        raise StaleWriteError(
            f"The tenant is revision {held.revision} now, not {expected_revision}; read it again."
        )
    above = Tenant.objects.get(pk=parent.pk) if parent else None
    if above and held.pk in above.lineage:
        raise InvalidContentError(
            f"{above.path} is {held.path} itself or below it.", pointer="/parent"
        )
    path = f"{above.path}/{held.name}" if above else held.name
    below = list(Tenant.objects.filter(lineage__contains=[held.pk]))
    longest = max(len(one.path) for one in below) - len(held.path) + len(path)
    if longest > LONGEST_PATH:
        raise InvalidContentError(
            f"A path below it would have {longest} letters; {LONGEST_PATH} are the most.",
            pointer="/parent",
        )
    if path != held.path and Tenant.objects.filter(path=path).exists():
        raise ConflictError(f"The tenant {path} exists already.", pointer="/parent")
    lineages = {one.pk: tuple(one.lineage) for one in below}
    return Move(held, above, path, tuple(above.lineage) if above else (), lineages)


@transaction.atomic
def write_move(*, actor: User | None, move: Move, why: str, now: datetime) -> Tenant:
    """Writes a move in one statement whatever the size of the subtree; the tenant as it is then.

    The revisions of all that moved and of all above, before and after, rise: plans that were made
    on the tree as it was are stale.
    """
    tenant, parent = move.tenant, move.parent
    run(
        Statement(
            _MOVE,
            (
                move.path,
                len(tenant.path) + 1,
                list(move.above),
                len(tenant.lineage),
                tenant.pk,
                parent.pk if parent else None,
                tenant.pk,
            ),
        )
    )
    around = {*tenant.lineage[:-1], *move.above}
    Tenant.objects.filter(pk__in=around).update(revision=F("revision") + 1)
    data = {"from": tenant.path, "to": move.path}
    moved = Change("tenant.moved", str(tenant.pk), tenant.pk, cause="moved", data=data)
    write_events(changes=[moved], now=now)
    write_audit(
        actor=actor,
        action="move",
        object_type="tenant",
        object_id=move.path,
        before={"path": tenant.path},
        after={"path": move.path},
        why=why,
        now=now,
    )
    ring()
    return Tenant.objects.get(pk=tenant.pk)
