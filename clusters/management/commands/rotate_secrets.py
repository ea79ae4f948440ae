"""`manage.py rotate_secrets`: encrypts stored secrets anew under the first encryption key."""

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from clusters.services.rotate import rotate_secrets
from kit.crypto import UndecryptableError


class Command(BaseCommand):
    """Rotates."""

    help = "Encrypts every cluster's secret anew under the first of MUSTER_ENCRYPTION_KEYS."

    def handle(self, **_: object) -> None:
        """Rotates and says how many.

        Raises:
            CommandError: a secret fits none of the keys; nothing was changed.
        """
        try:
            number = rotate_secrets(actor=None, now=timezone.now())
        except UndecryptableError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{number} secrets are encrypted under the first key now.")
