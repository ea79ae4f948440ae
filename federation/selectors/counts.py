"""How many jobs stand where."""

from collections.abc import Mapping

from django.db.models import Count

from federation.selectors.jobs import visible_jobs
from tenancy.models import User


def jobs_by_state(user: User) -> Mapping[str, int]:
    """The number of jobs in each state that the user may see. One query."""
    rows = visible_jobs(user).order_by().values_list("state").annotate(count=Count("id"))
    return dict(rows)
