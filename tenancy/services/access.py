"""Writes on people and the tree: tenants, members, tokens."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from kit.crypto import digest, new_token
from kit.errors import ConflictError, FieldProblem, InvalidContentError, NotFoundError
from tenancy.models import ApiToken, Membership, Role, Scope, Tenant, User
from tenancy.models.access import NAME
from tenancy.services.records import write_audit

BEARER = "mst"
RESERVED = frozenset({"quotas", "usage", "members", "move"})  # /tenants/{path}/quotas and so on
LONGEST_PATH = 1023
LONGEST_TOKEN_LIFE = timedelta(days=366)


def is_title(text: object) -> bool:
    """Whether it is a title that people can read: at most 200 printable letters, or none."""
    return isinstance(text, str) and len(text) <= 200 and (text == "" or text.isprintable())


@transaction.atomic
def create_tenant(
    *, actor: User | None, name: str, parent: Tenant | None, title: str = "", now: datetime
) -> Tenant:
    """A new node of the tree.

    Raises:
        InvalidContentError: the name is not `[a-z0-9-]{1,63}`, or reserved; the parent is gone, or
            too deep.
        ConflictError: the parent has a child of that name already.
    """
    if not is_title(title):
        raise InvalidContentError("Use at most 200 printable letters.", pointer="/title")
    try:
        NAME(name)
    except ValidationError:
        raise InvalidContentError(str(NAME.message), pointer="/name") from None
    if name in RESERVED:
        raise InvalidContentError(
            f"{name} is an address below every tenant; choose another name.", pointer="/name"
        )
    parent = _still(parent) if parent else None
    path = f"{parent.path}/{name}" if parent else name
    if len(path) > LONGEST_PATH:
        raise InvalidContentError(f"A path has at most {LONGEST_PATH} letters.", pointer="/parent")
    tenant = Tenant(parent=parent, name=name, path=path, title=title)
    tenant.lineage = [*(parent.lineage if parent else []), tenant.id]
    try:
        with transaction.atomic():
            tenant.save(force_insert=True)
    except IntegrityError:
        raise ConflictError(f"The tenant {path} exists already.", pointer="/name") from None
    write_audit(
        actor=actor,
        action="create",
        object_type="tenant",
        object_id=path,
        after={"title": title},
        now=now,
    )
    return tenant


def _still(parent: Tenant) -> Tenant:
    """The parent as it is now, locked: it may have been moved since it was read."""
    held = Tenant.objects.select_for_update(no_key=True).filter(pk=parent.pk).first()
    if held is None:
        raise InvalidContentError("The tenant above is gone.", pointer="/parent")
    return held


@transaction.atomic
def set_member(
    *, actor: User | None, tenant: Tenant, user: User, role: str | None, now: datetime
) -> None:
    """Gives a person a role in a tenant, changes it, or takes it away (`role` None).

    Raises:
        InvalidContentError: no such role.
    """
    if role is not None and role not in Role.values:
        raise InvalidContentError(f"role is one of {', '.join(Role.values)}.", pointer="/role")
    held = Membership.objects.filter(tenant=tenant, user=user).first()
    before = held.role if held else None
    if before == role:
        return
    if role is None:
        Membership.objects.filter(tenant=tenant, user=user).delete()
    else:
        Membership.objects.update_or_create(tenant=tenant, user=user, defaults={"role": role})
    write_audit(
        actor=actor,
        action="set_member",
        object_type="tenant",
        object_id=tenant.path,
        before={"user": user.username, "role": before},
        after={"user": user.username, "role": role},
        now=now,
    )


def _check_token(name: str, scopes: Sequence[str], expires_at: datetime, now: datetime) -> None:
    wrong = []
    if not 0 < len(name) <= 200 or not name.isprintable():
        wrong.append(FieldProblem("/name", "invalid", "name must be 1 to 200 printable letters."))
    if not scopes or not set(scopes) <= set(Scope.values):
        known = ", ".join(Scope.values)
        wrong.append(FieldProblem("/scopes", "invalid", f"scopes must be some of {known}."))
    if not now < expires_at <= now + LONGEST_TOKEN_LIFE:
        wrong.append(
            FieldProblem("/expires_at", "invalid", "expires_at must lie within the next 366 days.")
        )
    if wrong:
        raise InvalidContentError("The token cannot be made so.", errors=wrong)


@transaction.atomic
def create_token(
    *,
    actor: User,
    user: User,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime,
    now: datetime,
) -> tuple[ApiToken, str]:
    """A new bearer token and its text, which is shown this once.

    Raises:
        InvalidContentError: name, scopes or expiry are wrong.
    """
    _check_token(name, scopes, expires_at, now)
    text = new_token(BEARER)
    token = ApiToken.objects.create(
        user=user,
        name=name,
        prefix=text[:12],
        digest=digest(text),
        scopes=sorted(set(scopes)),
        created_at=now,
        expires_at=expires_at,
    )
    write_audit(
        actor=actor,
        action="create",
        object_type="token",
        object_id=token.id,
        after={"name": name, "scopes": token.scopes, "user": user.username},
        now=now,
    )
    return token, text


@transaction.atomic
def revoke_token(*, actor: User, user: User, token_id: UUID, now: datetime) -> None:
    """Ends a token of `user` at once; ending it twice is no error.

    Raises:
        NotFoundError: the user has no such token.
    """
    token = ApiToken.objects.filter(id=token_id, user=user).first()
    if token is None:
        raise NotFoundError("You have no such token.")
    if ApiToken.objects.filter(id=token_id, revoked_at=None).update(revoked_at=now):
        write_audit(actor=actor, action="revoke", object_type="token", object_id=token_id, now=now)
