"""What a cluster's options say of a tenant; and which account its jobs are charged to: `charge.*`."""

from collections.abc import Mapping

PREFIX = "charge."


def nearest(options: Mapping[str, str], prefix: str, path: str) -> str:
    """The value of the nearest of `<prefix><tenant>`, from the tenant itself to the root; "" = none."""
    here = path
    while here:
        if found := options.get(f"{prefix}{here}"):
            return found
        here = here.rpartition("/")[0]
    return ""


def charge_of(options: Mapping[str, str], path: str) -> str:
    """The account for jobs of the tenant at this path; "" = each person's default.

    The nearest of `charge.<tenant>` counts, from the tenant itself to the root, then `charge`.
    """
    return nearest(options, "charge.", path) or options.get("charge", "")
