"""Who asks: people, the tree of tenants, access; and the records of what was done."""

from tenancy.models.access import ApiToken, Membership, Role, Scope, Tenant, User
from tenancy.models.records import AuditEntry, Event, IdempotencyRecord, Tick

__all__ = [
    "ApiToken",
    "AuditEntry",
    "Event",
    "IdempotencyRecord",
    "Membership",
    "Role",
    "Scope",
    "Tenant",
    "Tick",
    "User",
]
