"""People, the tree and tokens in the admin; events and audit to read."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import Group
from django.http import HttpRequest, HttpResponse

from kit.admin import ReadOnlyAdmin, ServiceAdmin, ServiceForm
from tenancy.models import ApiToken, AuditEntry, Event, Membership, Tenant, User
from tenancy.services.access import create_tenant, revoke_token, set_member
from tenancy.services.people import create_person, set_password, update_person
from tenancy.services.tree import update_tenant

admin.site.site_header = admin.site.site_title = "Muster"
admin.site.index_title = "Configuration"
admin.site.unregister(Group)  # roles are memberships; Django's groups would say nothing here


class UserForm(ServiceForm):
    """A person. The password is written, never shown."""

    password_1 = forms.CharField(
        label="New password",
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Leave empty to keep the present one (a new person then has none).",
    )
    password_2 = forms.CharField(
        label="New password again",
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    class Meta:
        labels: ClassVar = {"is_superuser": "Admin"}
        help_texts: ClassVar = {
            "is_superuser": "May do everything, this admin included.",
            "is_active": "Whether the person may come in at all, by password or token.",
        }

    def clean(self) -> dict[str, Any]:
        """Both passwords must be the same."""
        cleaned = super().clean()
        if cleaned.get("password_1") != cleaned.get("password_2"):
            self.add_error("password_2", "The two passwords differ.")
        return cleaned


@admin.register(User)
class UserAdmin(ServiceAdmin):
    """People and service accounts."""

    form = UserForm
    fields = (
        "username",
        "first_name",
        "last_name",
        "email",
        "is_active",
        "is_superuser",
        "password_1",
        "password_2",
    )
    fixed: ClassVar = ("username",)
    list_display = ("username", "first_name", "last_name", "email", "is_active", "is_superuser")
    list_filter = ("is_active", "is_superuser")
    search_fields = ("username", "first_name", "last_name", "email")
    ordering = ("username",)

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> User:
        """Makes the person."""
        return create_person(
            actor=actor,
            username=values["username"],
            password=values["password_1"] or None,
            first_name=values["first_name"],
            last_name=values["last_name"],
            email=values["email"],
            is_admin=values["is_superuser"],
            now=now,
        )

    def update(self, held: User, values: Mapping[str, Any], actor: Any, now: datetime) -> User:
        """Changes the person, and the password when one is given."""
        changes = {name: values[name] for name in ("first_name", "last_name", "email", "is_active")}
        changes["is_admin"] = values["is_superuser"]
        saved = update_person(actor=actor, user=held, changes=changes, now=now)
        if values["password_1"]:
            set_password(actor=actor, user=saved, password=values["password_1"], now=now)
        return saved

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        """Saves; whoever changes their own password stays signed in."""
        super().save_model(request, obj, form, change)
        if obj.pk == request.user.pk and form.cleaned_data["password_1"]:
            update_session_auth_hash(request, obj)


class TenantForm(ServiceForm):
    """A tenant; closing and opening ask for a word why."""

    why = forms.CharField(required=False, help_text="For the audit: why it is closed or opened.")

    class Meta:
        help_texts: ClassVar = {
            "is_open": "A closed tenant finishes what runs and starts nothing new.",
        }


@admin.register(Tenant)
class TenantAdmin(ServiceAdmin):
    """The tree organisation > team > project."""

    form = TenantForm
    fields = ("parent", "name", "title", "is_open", "why")
    fixed: ClassVar = ("parent", "name")
    list_display = ("path", "title", "is_open")
    list_filter = ("is_open",)
    search_fields = ("path", "title")
    actions = ("close", "open")

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Tenant:
        """Makes the tenant, closed if so asked."""
        tenant = create_tenant(
            actor=actor,
            name=values["name"],
            parent=values["parent"],
            title=values["title"],
            now=now,
        )
        return self.update(tenant, values, actor, now)

    def update(self, held: Tenant, values: Mapping[str, Any], actor: Any, now: datetime) -> Tenant:
        """Changes the title; closes or opens."""
        changes = {name: values[name] for name in ("title", "is_open")}
        return update_tenant(actor=actor, tenant=held, changes=changes, why=values["why"], now=now)

    @admin.action(description="Close: finish what runs, start nothing")
    def close(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Closes the chosen tenants."""
        return self.each(request, rows, self._closer(is_open=False), "closed")

    @admin.action(description="Open again")
    def open(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Opens the chosen tenants."""
        return self.each(request, rows, self._closer(is_open=True), "open")

    def _closer(self, *, is_open: bool) -> Any:
        def act(tenant: Tenant, actor: Any, now: datetime) -> None:
            update_tenant(actor=actor, tenant=tenant, changes={"is_open": is_open}, now=now)

        return act


@admin.register(Membership)
class MembershipAdmin(ServiceAdmin):
    """Roles of people in tenants, inherited down the tree."""

    can_remove = True
    fields = ("user", "tenant", "role")
    fixed: ClassVar = ("user", "tenant")
    autocomplete_fields = ("user", "tenant")
    list_display = ("user", "tenant", "role")
    list_filter = ("role",)
    list_select_related = ("user", "tenant")
    search_fields = ("user__username", "tenant__path")

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Membership:
        """Gives the role."""
        return self._set(values["tenant"], values["user"], values["role"], actor, now)

    def update(
        self, held: Membership, values: Mapping[str, Any], actor: Any, now: datetime
    ) -> Membership:
        """Changes the role."""
        return self._set(held.tenant, held.user, values["role"], actor, now)

    def _set(self, tenant: Tenant, user: User, role: str, actor: Any, now: datetime) -> Membership:
        set_member(actor=actor, tenant=tenant, user=user, role=role, now=now)
        return Membership.objects.get(tenant=tenant, user=user)

    def remove(self, held: Membership, actor: Any, now: datetime) -> None:
        """Takes the role away."""
        set_member(actor=actor, tenant=held.tenant, user=held.user, role=None, now=now)


@admin.register(ApiToken)
class ApiTokenAdmin(ServiceAdmin):
    """Tokens: listed by their first letters, ended here, made and shown elsewhere, once."""

    can_add = can_change = False
    fields = ("prefix", "user", "name", "scopes", "created_at", "expires_at", "revoked_at")
    list_display = fields
    list_filter = ("revoked_at",)
    search_fields = ("prefix", "name", "user__username")
    list_select_related = ("user",)
    actions = ("revoke",)

    @admin.action(description="Revoke at once", permissions=["view"])
    def revoke(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Ends the chosen tokens."""

        def act(token: ApiToken, actor: Any, now: datetime) -> None:
            revoke_token(actor=actor, user=token.user, token_id=token.id, now=now)

        return self.each(request, rows, act, "revoked")


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """Changes of state."""

    list_display = ("id", "at", "kind", "subject", "tenant", "cause")
    list_filter = ("kind",)
    search_fields = ("subject",)
    list_select_related = ("tenant",)
    show_full_result_count = False


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """People's acts."""

    list_display = ("at", "actor", "action", "object_type", "object_id", "why")
    list_filter = ("object_type", "action")
    search_fields = ("object_id", "actor__username")
    list_select_related = ("actor",)
    show_full_result_count = False
