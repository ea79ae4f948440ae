"""`manage.py verify_ledger`: is every row of the ledger as it was posted?"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounting.selectors.ledger import last_seal, odd_rows, verify_ledger


class Command(BaseCommand):
    """Recomputes the chain of hashes; prints the last one, to be kept elsewhere as an anchor."""

    help = "Checks that no posted row was changed, added or removed; fails if one was."

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints the anchor.

        Raises:
            CommandError: the ledger does not hold; says where, and which rows if that shows.
        """
        fault = verify_ledger()
        if fault is not None:
            words = f"The ledger does not hold at batch {fault.seq}: {fault.problem}."
            rows = "".join(f"\n  transfer {key}" for key in odd_rows(fault.seq))
            contradict = f"\nNot what their usage records say:{rows}" if rows else ""
            raise CommandError(f"{words}{contradict}\nSee docs/runbook.md#does-the-ledger-hold")
        seal = last_seal()
        where = "it is empty" if seal is None else f"last batch {seal[0]}, hash {seal[1]}"
        self.stdout.write(f"The ledger holds: {where}.")
