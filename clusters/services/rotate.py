"""Rotation of the keys that stored secrets are encrypted with."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from clusters.models import Cluster
from kit.crypto import decrypt, encrypt
from tenancy.models import User
from tenancy.services.records import write_audit


@transaction.atomic
def rotate_secrets(*, actor: User | None, now: datetime) -> int:
    """Encrypts every cluster's secret anew under the first key; how many. All or none.

    The secrets themselves stay what they are. Afterwards the other keys can be taken away.

    Raises:
        UndecryptableError: one of them fits none of the keys.
    """
    keys = settings.ENVIRONMENT.encryption_keys
    rotated = list(Cluster.objects.select_for_update().exclude(secret=b"").order_by("name"))
    for cluster in rotated:
        cluster.secret = encrypt(decrypt(bytes(cluster.secret), keys), keys)
        cluster.save(update_fields=["secret"])
        write_audit(
            actor=actor,
            action="rotate_secret",
            object_type="cluster",
            object_id=cluster.name,
            now=now,
        )
    return len(rotated)
