"""Secrets at rest: rotation keeps old secrets readable and takes the newest key for new ones."""

import re

import pytest
from cryptography.fernet import Fernet
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.crypto import UndecryptableError, decrypt, digest, encrypt, new_token

OLD, NEW, OTHER = (Fernet.generate_key().decode() for _ in range(3))


@given(st.binary(max_size=4096))
@settings(max_examples=50)
def test_what_was_encrypted_is_read_back_and_never_twice_the_same(plain: bytes) -> None:
    first, second = encrypt(plain, (NEW,)), encrypt(plain, (NEW,))
    assert decrypt(first, (NEW,)) == decrypt(second, (NEW,)) == plain
    assert first != second
    assert len(plain) < 8 or plain not in first


def test_rotation_reads_the_old_and_writes_the_new() -> None:
    before = encrypt(b"key", (OLD,))
    assert decrypt(before, (NEW, OLD)) == b"key"
    after = encrypt(b"key", (NEW, OLD))
    assert decrypt(after, (NEW,)) == b"key"
    with pytest.raises(UndecryptableError):
        decrypt(after, (OLD,))


def test_a_lost_key_is_said_plainly_and_a_forged_text_is_refused() -> None:
    cipher = encrypt(b"key", (OLD,))
    with pytest.raises(UndecryptableError, match="MUSTER_ENCRYPTION_KEYS"):
        decrypt(cipher, (OTHER,))
    with pytest.raises(UndecryptableError):
        decrypt(cipher[:-1] + (b"A" if cipher[-1:] != b"A" else b"B"), (OLD,))


def test_tokens_are_long_random_and_fit_into_a_header() -> None:
    tokens = {new_token("mst") for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(re.fullmatch(r"mst_[A-Za-z0-9_-]{43}", token) for token in tokens)
    assert len({digest(token) for token in tokens}) == 1000
    assert digest("mst_x") == digest("mst_x")
    assert re.fullmatch("[0-9a-f]{64}", digest("mst_x"))
