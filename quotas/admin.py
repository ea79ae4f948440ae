"""Quotas in the admin."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin

from kit.admin import ServiceAdmin, ServiceForm
from quotas.core.limits import BOUNDS
from quotas.core.policy import POLICY_FIELDS, Policy
from quotas.core.table import NUMBERS
from quotas.models import Limit, Quota, QuotaPolicy
from quotas.services.limits import Whose, remove_limit, set_limit, whose_of
from quotas.services.policy import set_policy
from quotas.services.rows import remove_quota, set_quota


class QuotaForm(ServiceForm):
    """A row, the revision that its reader saw, and why it is changed."""

    why = forms.CharField(required=False, help_text="For the audit: why it is so.")
    seen = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "seen" in self.fields:
            self.fields["seen"].initial = (
                0 if self.instance._state.adding else self.instance.revision
            )


@admin.register(Quota)
class QuotaAdmin(ServiceAdmin):
    """GPUs owed to a tenant, and the most it may use as spot."""

    form = QuotaForm
    can_remove = True
    fields = ("tenant", "flavor", "cluster", *NUMBERS, "why", "seen")
    fixed: ClassVar = ("tenant", "flavor", "cluster")
    autocomplete_fields = ("tenant",)
    list_display = ("tenant", "flavor", "cluster", *NUMBERS)
    list_filter = ("flavor", "cluster")
    list_select_related = ("tenant", "flavor", "cluster")
    search_fields = ("tenant__path",)

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Quota:
        """Sets a first quota."""
        return set_quota(
            actor=actor,
            tenant=values["tenant"],
            flavor=values["flavor"],
            cluster=values["cluster"],
            **{name: values[name] for name in NUMBERS},
            expected_revision=0,
            why=values["why"],
            now=now,
        )

    def update(self, held: Quota, values: Mapping[str, Any], actor: Any, now: datetime) -> Quota:
        """Sets it anew."""
        return set_quota(
            actor=actor,
            tenant=held.tenant,
            flavor=held.flavor,
            cluster=held.cluster,
            **{name: values[name] for name in NUMBERS},
            expected_revision=values["seen"] or 0,
            why=values["why"],
            now=now,
        )

    def remove(self, held: Quota, actor: Any, now: datetime) -> None:
        """Takes it away."""
        remove_quota(actor=actor, quota=held, now=now)


@admin.register(Limit)
class LimitAdmin(ServiceAdmin):
    """The most that jobs of a tenant, a person or a label may do at once."""

    form = QuotaForm
    can_remove = True
    fixed: ClassVar = ("tenant", "scope", "user", "label", "text")
    fields = (*fixed, *BOUNDS, "why", "seen")
    autocomplete_fields = ("tenant",)
    list_display = (*fixed, *BOUNDS)
    list_filter = ("scope",)
    list_select_related = ("tenant", "user")
    search_fields = ("tenant__path",)

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Limit:
        """Sets a first limit."""
        return set_limit(
            actor=actor,
            tenant=values["tenant"],
            whose=Whose(values["scope"], values["user"], values["label"], values["text"]),
            **{name: values[name] for name in BOUNDS},
            expected_revision=0,
            why=values["why"],
            now=now,
        )

    def update(self, held: Limit, values: Mapping[str, Any], actor: Any, now: datetime) -> Limit:
        """Sets it anew."""
        return set_limit(
            actor=actor,
            tenant=held.tenant,
            whose=whose_of(held),
            **{name: values[name] for name in BOUNDS},
            expected_revision=values["seen"] or 0,
            why=values["why"],
            now=now,
        )

    def remove(self, held: Limit, actor: Any, now: datetime) -> None:
        """Takes it away."""
        remove_limit(actor=actor, tenant=held.tenant, whose=whose_of(held), now=now)


@admin.register(QuotaPolicy)
class QuotaPolicyAdmin(ServiceAdmin):
    """The policy for all tenants: one row."""

    fields = POLICY_FIELDS
    list_display = ("__str__", *POLICY_FIELDS)

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> QuotaPolicy:
        """Sets it for the first time; as there is one row, a second time sets it anew."""
        return set_policy(actor=actor, policy=Policy(**values), now=now)

    def update(
        self, held: QuotaPolicy, values: Mapping[str, Any], actor: Any, now: datetime
    ) -> QuotaPolicy:
        """Sets it anew."""
        return set_policy(actor=actor, policy=Policy(**values), now=now)
