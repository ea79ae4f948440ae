"""Small builders through the real services, for tests that need people, tenants and clusters."""

from datetime import UTC, datetime

from clusters.models import Cluster, Flavor
from clusters.services.configure import create_cluster, create_flavor
from tenancy.models import Tenant, User
from tenancy.services.access import create_tenant
from tenancy.services.people import create_person

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SECRET = b"a-key-that-must-never-be-seen-32"
PASSWORD = "four random words here"


def admin(username: str = "ada") -> User:
    return create_person(actor=None, username=username, password=PASSWORD, is_admin=True, now=NOW)


def person(username: str = "mia") -> User:
    return create_person(actor=None, username=username, password=PASSWORD, now=NOW)


def tenant(path: str) -> Tenant:
    """The tenant of a path and, where they are missing, its ancestors."""
    parent_path, _, name = path.rpartition("/")
    found = Tenant.objects.filter(path=path).first()
    if found:
        return found
    parent = tenant(parent_path) if parent_path else None
    return create_tenant(actor=None, name=name, parent=parent, now=NOW)


def cluster(name: str = "aurora", **changes: object) -> Cluster:
    settings: dict[str, object] = {
        "actor": None,
        "name": name,
        "backend": "slurm",
        "endpoint": "http://127.0.0.1:6820",
        "secret": SECRET,
        "account": "slurm",
        "now": NOW,
        **changes,
    }
    return create_cluster(**settings)  # type: ignore[arg-type]


def flavor(name: str = "h100-sxm-80") -> Flavor:
    return create_flavor(actor=None, name=name, vendor="nvidia", memory_gb=80, now=NOW)
