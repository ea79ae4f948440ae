"""What admins do with the tree of tenants on the page of quotas."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from federation.services.move import move_tenant
from kit.errors import InvalidContentError, MusterError
from tenancy.selectors.tenants import visible_tenant
from tenancy.views import person, signed_in


@signed_in
@require_POST
def move(request: HttpRequest) -> HttpResponse:
    """`POST /tenants/move`: an admin moves a tenant; back to the page of quotas."""
    user, sent = person(request), request.POST
    if not user.is_superuser:
        raise PermissionDenied
    path, under, why = (sent.get(name, "").strip() for name in ("tenant", "parent", "why"))
    try:
        if not why:
            raise InvalidContentError("Say why; it is kept with the change.", pointer="/why")
        moved = move_tenant(
            actor=user,
            tenant=visible_tenant(user, path),
            parent=visible_tenant(user, under) if under else None,
            why=why,
            now=timezone.now(),
        )
    except MusterError as error:
        words = " ".join(one.detail for one in error.errors) or error.detail
        messages.error(request, f"Nothing was moved. {words}")
    else:
        messages.success(request, f"{path} is {moved.path} now.")
    return redirect("quotas")
