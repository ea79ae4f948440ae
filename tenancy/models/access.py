"""People, the tree of tenants, roles and tokens."""

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models

from kit.ids import new_id

NAME = RegexValidator(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z", "Use 1 to 63 of a-z, 0-9 and -.")


class User(AbstractUser):
    """A person or a service account. `is_staff` opens the admin; `is_superuser` is role admin."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)

    class Meta(AbstractUser.Meta):
        pass


class Tenant(models.Model):
    """A node of the tree organisation > team > project. It owns quota and is billed.

    `path` is the look-up key (`acme/vision/pretrain`); `lineage` the ids from the root to itself,
    so that a subtree and the ancestors are each one indexed condition.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="children"
    )
    name = models.CharField(max_length=63, validators=[NAME])
    path = models.CharField(max_length=1023, unique=True, editable=False)
    lineage = ArrayField(models.UUIDField(), editable=False)
    title = models.CharField(max_length=200, blank=True)
    is_open = models.BooleanField(default=True)
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering: ClassVar = ["path"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["parent", "name"], name="tenant_name_once", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=models.Q(name__regex=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
                name="tenant_name_form",
            ),
        ]

    def __str__(self) -> str:
        return self.path


class Role(models.TextChoices):
    """What a member may do in a tenant and everything below it; each includes the one before."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OWNER = "owner"


class Membership(models.Model):
    """A person's role in a tenant, inherited down the tree."""

    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "tenant"], name="membership_once"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} of {self.tenant_id}"


class Scope(models.TextChoices):
    """What a token may be used for, at most what its owner may do."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


class ApiToken(models.Model):
    """A bearer token: only its digest is kept. `prefix` lets people tell tokens apart."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=12, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=16, choices=Scope))
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}… {self.name}"
