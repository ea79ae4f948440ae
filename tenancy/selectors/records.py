"""Reads of tokens and of the audit trail."""

from collections.abc import Sequence
from uuid import UUID

from tenancy.models import ApiToken, AuditEntry, User


def tokens_of(user: User, *, after: UUID | None, limit: int) -> list[ApiToken]:
    """At most `limit` + 1 tokens of a person, newest first (their ids are in order of time)."""
    rows = ApiToken.objects.filter(user=user)
    if after is not None:
        rows = rows.filter(id__lt=after)
    return list(rows.order_by("-id")[: limit + 1])


def audit_page(
    *,
    object_types: Sequence[str],
    object_ids: Sequence[str],
    actors: Sequence[str],
    after: int | None,
    limit: int,
) -> list[AuditEntry]:
    """At most `limit` + 1 entries, newest first; each filter is "any of", empty = all."""
    rows = AuditEntry.objects.select_related("actor")
    if object_types:
        rows = rows.filter(object_type__in=object_types)
    if object_ids:
        rows = rows.filter(object_id__in=object_ids)
    if actors:
        rows = rows.filter(actor__username__in=actors)
    if after is not None:
        rows = rows.filter(id__lt=after)
    return list(rows.order_by("-id")[: limit + 1])
