"""Secrets: encryption at rest with rotatable keys, and one-way digests of tokens."""

import hashlib
import secrets

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from kit.errors import MusterError


class UndecryptableError(MusterError):
    """A stored secret was encrypted with a key that is no longer configured."""

    code, status, title = "undecryptable", 500, "A stored secret cannot be decrypted"


def encrypt(plain: bytes, keys: tuple[str, ...]) -> bytes:
    """The ciphertext under the first key. Keys are Fernet keys, newest first."""
    return MultiFernet([Fernet(key) for key in keys]).encrypt(plain)


def decrypt(cipher: bytes, keys: tuple[str, ...]) -> bytes:
    """The plain bytes, with whichever key fits.

    Raises:
        UndecryptableError: no configured key fits.
    """
    try:
        return MultiFernet([Fernet(key) for key in keys]).decrypt(cipher)
    except InvalidToken:
        raise UndecryptableError(
            "The secret was encrypted with a key that is not in MUSTER_ENCRYPTION_KEYS; "
            "add the old key at the end of the list."
        ) from None


def new_token(prefix: str) -> str:
    """A fresh bearer token: a readable prefix and 256 random bits."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def digest(token: str) -> str:
    """SHA-256, hexadecimal. Tokens carry 256 random bits, so no slow hash is needed."""
    return hashlib.sha256(token.encode()).hexdigest()
