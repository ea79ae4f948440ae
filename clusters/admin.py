"""The fleet in the admin: clusters with their secrets (written, never shown), flavors, accounts."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from clusters.models import (
    Cluster,
    ClusterAccount,
    ClusterFlavor,
    Command,
    Flavor,
    Lease,
    Node,
    Observation,
)
from clusters.selectors.connection import CONFIGURED, configuration_etag
from clusters.services.configure import (
    create_cluster,
    create_flavor,
    remove_account,
    remove_cluster_flavor,
    set_account,
    set_cluster_flavor,
    set_secret,
    update_cluster,
    update_flavor,
)
from clusters.services.fleet import set_state
from clusters.services.probe import probe_cluster
from kit.admin import ReadOnlyAdmin, ServiceAdmin, ServiceForm


class ClusterForm(ServiceForm):
    """A cluster. The secret goes in as a file or as base64, and never comes out."""

    endpoint = forms.CharField(
        max_length=500,
        help_text="Slurm: the address of slurmrestd, e.g. https://slurm.example:6820.",
    )
    secret_file = forms.FileField(
        required=False,
        label="Key (file)",
        help_text="Slurm: the cluster's jwt_hs256.key as it is. Leave empty to keep.",
    )
    secret_base64 = forms.CharField(
        required=False,
        label="Key (base64)",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="The same key as text: base64 -w0 jwt_hs256.key. Leave empty to keep.",
    )
    etag = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        help_texts: ClassVar = {
            "options": 'Strings by name, e.g. {"charge": "ml", "tier.leaf": "^rack[0-9]+$"}.',
            "stores": "Names of stores and datasets that its nodes see, comma-separated.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding and "etag" in self.fields:
            self.fields["etag"].initial = configuration_etag(self.instance)

    def clean_secret_base64(self) -> bytes:
        """The key's bytes; empty when none was given."""
        try:
            return base64.b64decode(self.cleaned_data["secret_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise forms.ValidationError("This is not base64.") from None

    def clean(self) -> dict[str, Any]:
        """`secret` is what was given either way, or empty."""
        cleaned = super().clean()
        upload, typed = cleaned.get("secret_file"), cleaned.get("secret_base64")
        if upload and typed:
            self.add_error("secret_base64", "Give the key one way, not both.")
        cleaned["secret"] = upload.read() if upload else typed or b""
        return cleaned


@admin.register(Cluster)
class ClusterAdmin(ServiceAdmin):
    """Member clusters."""

    form = ClusterForm
    fields = (
        "name",
        *CONFIGURED,
        "secret_file",
        "secret_base64",
        "etag",
        "state",
        "leave_plan",
        "gaps",
        "last_seen_at",
        "failing_since",
        "failure",
        "clock_skew_ms",
        "rebuilt_at",
        "revision",
    )
    readonly_fields = fields[-9:]
    fixed: ClassVar = ("name",)
    list_display = ("name", "title", "backend", "endpoint", "state", "last_seen_at", "failure")
    list_filter = ("backend", "state")
    search_fields = ("name", "title")
    actions = ("probe_now", "drain", "cut_off", "open_again")

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Cluster:
        """Makes the cluster."""
        return create_cluster(
            actor=actor,
            name=values["name"],
            secret=values["secret"],
            **{name: values[name] for name in CONFIGURED},
            now=now,
        )

    def update(
        self, held: Cluster, values: Mapping[str, Any], actor: Any, now: datetime
    ) -> Cluster:
        """Changes the configuration, and the secret when one is given."""
        saved = update_cluster(
            actor=actor,
            cluster=held,
            changes={name: values[name] for name in CONFIGURED},
            expected_etag=values["etag"],
            now=now,
        )
        if values["secret"]:
            set_secret(actor=actor, cluster=saved, secret=values["secret"], now=now)
        return saved

    @admin.action(description="Probe now: versions, rights, clock", permissions=["change"])
    def probe_now(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Probes the chosen clusters."""

        def act(cluster: Cluster, actor: Any, now: datetime) -> None:
            probe_cluster(actor=actor, cluster=cluster, now=now)

        return self.each(request, rows, act, "probed")

    @admin.display(description="What the last probe found missing")
    def gaps(self, cluster: Cluster) -> str:
        """Each finding that is off, with its fix."""
        findings = cluster.probe.get("findings")
        if not findings:
            return "Not probed yet."
        off = [finding for finding in findings if not finding["is_on"]]
        lines = [f"{f['capability']}: {f['detail']}. Fix: {f['fix'] or 'none'}." for f in off]
        return "\n".join(lines) or "Nothing."

    @admin.action(description="Drain: nothing new is bound there", permissions=["change"])
    def drain(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Drains the chosen clusters."""
        return self._set(request, rows, Cluster.State.DRAINING, "drained")

    @admin.action(description="Cut off: nothing new gets there at all", permissions=["change"])
    def cut_off(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Cuts the chosen clusters off."""
        return self._set(request, rows, Cluster.State.CUT_OFF, "cut off")

    @admin.action(description="Open again for new work", permissions=["change"])
    def open_again(self, request: HttpRequest, rows: Any) -> HttpResponse | None:
        """Opens the chosen clusters."""
        return self._set(request, rows, Cluster.State.ACTIVE, "opened")

    def _set(
        self, request: HttpRequest, rows: Any, state: Cluster.State, done: str
    ) -> HttpResponse | None:
        def act(cluster: Cluster, actor: Any, now: datetime) -> None:
            set_state(actor=actor, cluster=cluster, state=state, now=now)

        return self.each(request, rows, act, done)


@admin.register(Flavor)
class FlavorAdmin(ServiceAdmin):
    """GPU models."""

    fields = ("name", "vendor", "memory_gb", "bf16_tflops")
    fixed: ClassVar = ("name",)
    list_display = fields
    search_fields = ("name",)

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Flavor:
        """Makes the flavor."""
        return create_flavor(actor=actor, **{name: values[name] for name in self.fields}, now=now)

    def update(self, held: Flavor, values: Mapping[str, Any], actor: Any, now: datetime) -> Flavor:
        """Corrects its facts."""
        changes = {name: values[name] for name in self.fields if name != "name"}
        return update_flavor(actor=actor, flavor=held, changes=changes, now=now)


@admin.register(ClusterFlavor)
class ClusterFlavorAdmin(ServiceAdmin):
    """What a flavor is called on a cluster."""

    can_remove = True
    fields = ("cluster", "flavor", "device", "queue")
    fixed: ClassVar = ("cluster", "flavor")
    list_display = fields
    list_filter = ("cluster", "flavor")
    list_select_related = ("cluster", "flavor")

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> ClusterFlavor:
        """Says it."""
        return set_cluster_flavor(
            actor=actor, **{name: values[name] for name in self.fields}, now=now
        )

    def update(
        self, held: ClusterFlavor, values: Mapping[str, Any], actor: Any, now: datetime
    ) -> ClusterFlavor:
        """Says it anew."""
        return set_cluster_flavor(
            actor=actor,
            cluster=held.cluster,
            flavor=held.flavor,
            device=values["device"],
            queue=values["queue"],
            now=now,
        )

    def remove(self, held: ClusterFlavor, actor: Any, now: datetime) -> None:
        """Takes the flavor off the cluster."""
        remove_cluster_flavor(actor=actor, held=held, now=now)


@admin.register(ClusterAccount)
class ClusterAccountAdmin(ServiceAdmin):
    """Who is who on a cluster."""

    can_remove = True
    fields = ("cluster", "user", "account", "home", "run_as")
    fixed: ClassVar = ("cluster", "user")
    autocomplete_fields = ("user",)
    list_display = fields
    list_filter = ("cluster",)
    list_select_related = ("cluster", "user")
    search_fields = ("user__username", "account")

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> ClusterAccount:
        """Maps the person."""
        return set_account(actor=actor, **{name: values[name] for name in self.fields}, now=now)

    def update(
        self, held: ClusterAccount, values: Mapping[str, Any], actor: Any, now: datetime
    ) -> ClusterAccount:
        """Maps the person anew."""
        return set_account(
            actor=actor,
            cluster=held.cluster,
            user=held.user,
            account=values["account"],
            home=values["home"],
            run_as=values["run_as"],
            now=now,
        )

    def remove(self, held: ClusterAccount, actor: Any, now: datetime) -> None:
        """Takes the account away."""
        remove_account(actor=actor, held=held, now=now)


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    """Nodes as last seen."""

    list_display = ("name", "cluster", "state", "device", "gpus", "foreign_gpus", "reason")
    list_filter = ("cluster", "state")
    search_fields = ("name",)
    list_select_related = ("cluster",)


@admin.register(Command)
class CommandAdmin(ReadOnlyAdmin):
    """The outbox."""

    list_display = ("id", "cluster", "kind", "fence", "state", "tries", "sent_at", "error")
    list_filter = ("cluster", "kind", "state")
    search_fields = ("fence", "key")
    list_select_related = ("cluster",)
    show_full_result_count = False


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Who delivers to and reads which cluster."""

    list_display = ("cluster", "kind", "holder", "epoch", "expires_at")
    list_select_related = ("cluster",)


@admin.register(Observation)
class ObservationAdmin(ReadOnlyAdmin):
    """The newest reading of each cluster."""

    list_display = ("cluster", "begun_at", "ended_at", "accounting_answered", "foreign_running")
    list_select_related = ("cluster",)
