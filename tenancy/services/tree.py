"""Writes on a tenant's own description."""

from datetime import datetime

from django.db import transaction

from kit.errors import InvalidContentError
from tenancy.models import Tenant, User
from tenancy.services.records import write_audit


@transaction.atomic
def set_title(*, actor: User | None, tenant: Tenant, title: str, now: datetime) -> None:
    """Changes the title that people read. Name and path never change: they are addresses.

    Raises:
        InvalidContentError: longer than 200 letters, or not printable.
    """
    if len(title) > 200 or not (title == "" or title.isprintable()):
        raise InvalidContentError("Use at most 200 printable letters.", pointer="/title")
    before = Tenant.objects.select_for_update().values_list("title", flat=True).get(pk=tenant.pk)
    if before == title:
        return
    Tenant.objects.filter(pk=tenant.pk).update(title=title)
    write_audit(
        actor=actor,
        action="update",
        object_type="tenant",
        object_id=tenant.path,
        before={"title": before},
        after={"title": title},
        now=now,
    )
