"""Rotation: of a cluster's own secret, and of the keys that stored secrets are encrypted with."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from clusters.models import Cluster
from clusters.selectors.connection import connection_of
from clusters.services.configure import refuse, secret_problems, set_secret
from clusters.services.probe import ProbeFailedError, ask, keep_report, silence
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


def rotate_credentials(
    *, actor: User | None, cluster: Cluster, secret: bytes, force: bool = False, now: datetime
) -> dict[str, object]:
    """Replaces a cluster's secret by one that works there; the probe's report.

    The new secret is tried first, with no transaction open: until it has worked, the old one stays
    in use. Then they are swapped in one statement. Calls under way keep the tokens they have, and
    jobs do not notice. `force` swaps untried, for a cluster that cannot be reached now.

    Raises:
        InvalidContentError: the secret is empty, too long, or not of the backend's form.
        ProbeFailedError: the cluster does not answer to the new secret; nothing was changed.
    """
    refuse(secret_problems(secret, cluster.backend, cluster.endpoint))
    if force:
        set_secret(actor=actor, cluster=cluster, secret=secret, now=now)
        return {}
    tried = ask(cluster.backend, connection_of(cluster, secret), now)
    if words := silence(tried):
        raise ProbeFailedError(
            f"{cluster.name} does not answer to the new key, so the old one stays: {words}"
        )
    with transaction.atomic():
        set_secret(actor=actor, cluster=cluster, secret=secret, now=now)
        return keep_report(actor=actor, cluster=cluster, report=tried, now=now)
