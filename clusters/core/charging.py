"""Which of a cluster's own accounts a tenant's jobs are charged to there: options `charge.*`."""

from collections.abc import Mapping

PREFIX = "charge."


def charge_of(options: Mapping[str, str], path: str) -> str:
    """The account for jobs of the tenant at this path; "" = each person's default.

    The nearest of `charge.<tenant>` counts, from the tenant itself to the root, then `charge`.
    """
    here = path
    while here:
        if found := options.get(f"charge.{here}"):
            return found
        here = here.rpartition("/")[0]
    return options.get("charge", "")
