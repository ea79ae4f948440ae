"""What a restored database needs before it goes on: events in an order that readers can follow."""

from django.db import connection

# Numbers of events that were given after the moment restored to are not given again.
GAP = 1_000_000

# Transaction ids of another server that this one has not reached would hide events for long.
_FOREIGN_IDS = """
UPDATE tenancy_event SET xid = 0 WHERE EXISTS (
    SELECT 1 FROM tenancy_event
    WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
"""
_LEAP = """
SELECT setval(pg_get_serial_sequence('tenancy_event', 'id'), (
    SELECT coalesce(max(id), 0) + %s FROM tenancy_event))
"""


def place_events() -> None:
    """Puts restored events before all later ones, and leaves a gap for the numbers that were lost.

    A reader of the stream that comes back with a number of the lost time gets what is new since.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FOREIGN_IDS)
        cursor.execute(_LEAP, [GAP])
