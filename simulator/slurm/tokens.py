"""Slurm's JSON web tokens: HS256 over the raw key, claims `exp`, `iat` and `sun` (the user)."""

import base64
import binascii
import hashlib
import hmac
import json

from simulator.engine.commands import Actor


def mint(key: bytes, user: str, *, now: int, lifespan: int = 3600) -> str:
    """A token for a user, as `scontrol token` would make it; times in epoch seconds."""
    header = _encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    claims = _encode(json.dumps({"exp": now + lifespan, "iat": now, "sun": user}).encode())
    message = header + b"." + claims
    return (message + b"." + _encode(hmac.new(key, message, hashlib.sha256).digest())).decode()


def verify(key: bytes, token: str, user: str, *, admins: list[str], now: int) -> Actor | None:
    """Who asks, or None for a token that is bad, expired or another user's.

    An administrator's token may speak for any user, as behind an authenticating proxy.
    """
    try:
        message, _, signature = token.encode().rpartition(b".")
        good = hmac.new(key, message, hashlib.sha256).digest()
        header, claims = (json.loads(_decode(part)) for part in message.split(b"."))
        if header.get("alg") != "HS256" or not hmac.compare_digest(good, _decode(signature)):
            return None
        owner, expires = claims["sun"], claims["exp"]
    except (ValueError, KeyError, AttributeError, TypeError, binascii.Error):
        return None
    if not isinstance(expires, int) or expires <= now:
        return None
    if owner != user and owner not in admins:
        return None
    return Actor(user, admin=user in admins)


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))
