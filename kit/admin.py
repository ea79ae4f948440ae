"""Django's admin as an edge: configuration is saved by services, state can only be read.

Only superusers (the role admin) see it. A refusal of a service becomes the form's errors.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from kit.errors import MusterError

if TYPE_CHECKING:  # the stubs are generic, the classes are not
    _ModelAdmin = admin.ModelAdmin[Any]
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelAdmin = admin.ModelAdmin
    _ModelForm = forms.ModelForm

REFUSAL = "_refusal"


class SuperusersOnly(_ModelAdmin):
    """Every permission asks for an active superuser with `is_staff`; Django's own do not count."""

    can_add = False
    can_change = False
    can_remove = False

    def _is_admin(self, request: HttpRequest) -> bool:
        user = request.user
        return bool(user.is_active and user.is_staff and user.is_superuser)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the app is listed."""
        return self._is_admin(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whether rows may be read."""
        return self._is_admin(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whether a row may be made."""
        return self.can_add and self._is_admin(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whether a row may be changed."""
        return self.can_change and self._is_admin(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whether a row may be removed."""
        return self.can_remove and self._is_admin(request)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """The actions, without Django's bulk delete: rows are removed one by one, by a service."""
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions


class ReadOnlyAdmin(SuperusersOnly):
    """State: shown, never written."""


class ServiceForm(_ModelForm):
    """A form whose errors may come from the service that refused the save."""

    refusal: ClassVar[MusterError | None] = None

    def _get_validation_exclusions(self) -> set[str]:
        """The model's own checks stand aside: the service has the rules, and says them better."""
        return {field.name for field in self.instance._meta.get_fields()}

    def clean(self) -> dict[str, Any]:
        """Adds the service's refusal: to the field its pointer names, else to the whole form."""
        cleaned = super().clean() or self.cleaned_data
        if self.refusal is None:
            return cleaned
        if not self.refusal.errors:
            self.add_error(None, self.refusal.detail)
        for problem in self.refusal.errors:
            name = problem.pointer.strip("/").split("/")[0]
            self.add_error(name if name in self.fields else None, problem.detail)
        return cleaned


class ServiceAdmin(SuperusersOnly):
    """Configuration: `create`, `update` and `remove` call one service each.

    Attributes:
        fixed: fields that can be given when a row is made and not changed later.
    """

    form = ServiceForm
    can_add = True
    can_change = True
    fixed: ClassVar[Sequence[str]] = ()

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Model:
        """Makes the row from the form's values."""
        raise NotImplementedError

    def update(self, held: Any, values: Mapping[str, Any], actor: Any, now: datetime) -> Model:
        """Changes the row; `values` are the form's, `held` bears them already in memory."""
        raise NotImplementedError

    def remove(self, held: Any, actor: Any, now: datetime) -> None:
        """Removes the row."""
        raise NotImplementedError

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """What is never written, and on a change what is fixed."""
        fields = list(super().get_readonly_fields(request, obj))
        return [*fields, *self.fixed] if obj else fields

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: Any = None, **kwargs: Any
    ) -> Any:
        """The form, carrying the refusal of the service when it refused this request."""
        refusal = vars(request).get(REFUSAL)
        form = type(self.form.__name__, (self.form,), {"refusal": refusal})
        return super().get_form(request, obj, change, **{"form": form, **kwargs})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Saves; a refusal rolls everything back and shows the same form with its errors."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except MusterError as error:
            vars(request)[REFUSAL] = error
            return super().changeform_view(request, object_id, form_url, extra_context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        """Calls the service; the row in memory then is the row that the service wrote."""
        now, values = timezone.now(), form.cleaned_data
        actor = request.user
        saved = self.update(obj, values, actor, now) if change else self.create(values, actor, now)
        vars(obj).update(vars(saved))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Calls the service that removes the row."""
        self.remove(obj, request.user, timezone.now())

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Removes; a refusal is shown as a message on the row's page."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except MusterError as error:
            self.message_user(request, error.detail, messages.ERROR)
            return HttpResponseRedirect("../change/")

    def each(self, request: HttpRequest, rows: Any, act: Any, done: str) -> HttpResponse | None:
        """An action over the chosen rows: `act(row, actor, now)`; each success or refusal is told."""
        for row in rows:
            try:
                act(row, request.user, timezone.now())
            except MusterError as error:
                self.message_user(request, f"{row}: {error.detail}", messages.ERROR)
            else:
                self.message_user(request, f"{row}: {done}", messages.SUCCESS)
        return None
