"""The poster's lock: one transaction at a time posts, or changes the prices posting reads."""

from django.db import connection

_POSTER = 0x6D75_0001  # 'mu', a number of its own among Muster's advisory locks


def take_poster_lock() -> None:
    """Waits for the lock; it is held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_POSTER])


def try_poster_lock() -> bool:
    """Takes the lock until the transaction ends, or returns False at once."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_POSTER])
        row = cursor.fetchone()
    return bool(row and row[0])
