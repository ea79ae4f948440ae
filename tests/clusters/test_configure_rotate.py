"""Key rotation end to end: add a key, rotate, take the old one away."""

import dataclasses

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from pytest_django import Settings

from clusters.models import Cluster
from clusters.selectors.connection import connection_of
from kit.crypto import UndecryptableError
from tenancy.models import AuditEntry
from tests import make
from tests.make import SECRET

pytestmark = pytest.mark.django_db


def use_keys(settings: Settings, *keys: str) -> None:
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, encryption_keys=keys)


def test_keys_are_rotated(settings: Settings) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    use_keys(settings, old)
    make.cluster("aurora")
    make.cluster("borealis")
    use_keys(settings, new)
    with pytest.raises(UndecryptableError):
        connection_of(Cluster.objects.get(name="aurora"))
    with pytest.raises(CommandError, match="add the old key"):
        call_command("rotate_secrets")
    assert not AuditEntry.objects.filter(action="rotate_secret").exists()
    use_keys(settings, new, old)
    call_command("rotate_secrets", verbosity=0)
    use_keys(settings, new)
    assert {connection_of(cluster).secret for cluster in Cluster.objects.all()} == {SECRET}
    assert AuditEntry.objects.filter(action="rotate_secret").count() == 2
