"""What was asked, decided and tried, to read."""

from django.contrib import admin

from federation.models import ArbiterTerm, Attempt, Decision, Job
from kit.admin import ReadOnlyAdmin


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs."""

    list_display = ("uuid", "name", "tenant", "user", "state", "class_now", "submitted_at")
    list_filter = ("state", "wanted_class")
    search_fields = ("uuid", "name", "tenant__path", "user__username")
    list_select_related = ("tenant", "user")
    show_full_result_count = False


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    """Attempts."""

    list_display = ("fence", "cluster", "flavor", "service_class", "state", "tier", "tier_seen")
    list_filter = ("cluster", "state", "service_class")
    search_fields = ("fence", "backend_id", "job__uuid")
    list_select_related = ("cluster", "flavor")
    show_full_result_count = False


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    """Decisions."""

    list_display = ("id", "at", "epoch", "waiting", "took_ms")
    show_full_result_count = False


@admin.register(ArbiterTerm)
class ArbiterTermAdmin(ReadOnlyAdmin):
    """The arbiter's term."""

    list_display = ("epoch", "cycled_at", "ranked_at")
