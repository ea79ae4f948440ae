"""Single values as the API versions spell them.

Up to v0.0.38 a number is a number and a state one word; from v0.0.39 on numbers that may be unset
are `{"set", "infinite", "number"}` and states are lists. Reading by shape keeps one reader for all.
"""

from typing import Any, TypedDict

import msgspec

Json = dict[str, Any]

# NO_VAL and INFINITE of 16, 32 and 64 bits (slurm.h) where an old reply prints them bare
_UNSET = {
    *(2**bits - back for bits in (32, 64) for back in (1, 2)),
}


Decoder = msgspec.json.Decoder[Any]
_WHOLE: Decoder = msgspec.json.Decoder()


def parsed(text: bytes | msgspec.Raw, decoder: Decoder = _WHOLE) -> Any:
    """The value of a JSON text. A site's words may hold bytes that are no UTF-8: they are replaced.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return decoder.decode(text)
    except msgspec.DecodeError:
        return decoder.decode(bytes(text).decode("utf-8", "replace"))


def only(names: str) -> Decoder:
    """A decoder of objects that leaves out all but these fields, at a third of the cost."""
    fields = dict.fromkeys(names.split(), Any)
    return msgspec.json.Decoder(TypedDict("Fields", fields, total=False))  # type: ignore[operator]


def number(value: object) -> int | None:
    """An integer, or None when it is unset, infinite or no number."""
    if isinstance(value, dict):
        is_known = value.get("set", False) and not value.get("infinite", False)
        return number(value.get("number")) if is_known else None
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    if isinstance(value, int | float):
        return None if value in _UNSET else int(value)
    return None


def seconds_to_ms(value: object) -> int | None:
    """A time in epoch seconds as milliseconds; None when unset or 0 (Slurm's "not yet")."""
    seconds = number(value)
    return seconds * 1000 if seconds else None


def words(value: object) -> tuple[str, ...]:
    """A list of words, whether it came as a list, as `a,b`, or not at all."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list):
        return tuple(str(part) for part in value)
    return ()


def wrapped(value: int) -> Json:
    """A number as v0.0.39 and later take it."""
    return {"set": True, "infinite": False, "number": value}
