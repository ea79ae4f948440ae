"""The body that makes a cluster a member, read whole: a value, or everything that is wrong."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.core import configuration as rules
from kit.errors import FieldProblem

FIELDS = (
    "name",
    "title",
    "backend",
    "endpoint",
    "secret",
    "account",
    "options",
    "stores",
    "calls_at_once",
    "calls_per_s",
    "flavors",
    "accounts",
    "force",
)
_NEEDED = ("name", "backend", "endpoint", "secret")
_DEFAULTS: Mapping[str, Any] = {
    "title": "",
    "account": "slurm",
    "options": {},
    "stores": [],
    "calls_at_once": None,
    "calls_per_s": None,
}
_ROWS: Mapping[str, Mapping[str, Any]] = {
    "flavors": {"flavor": None, "device": None, "queue": ""},
    "accounts": {"user": None, "account": None, "home": "", "run_as": ""},
}
MOST_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Joining:
    """A cluster that wants in. `configured` has every configured field, checked later as such.

    `flavors` hold flavor, device and queue; `accounts` hold user (a username), account, home and
    run_as.
    """

    name: Any
    configured: Mapping[str, Any]
    secret: bytes = field(repr=False)
    flavors: tuple[Mapping[str, str], ...]
    accounts: tuple[Mapping[str, str], ...]
    force: bool


def read_joining(body: Mapping[str, Any]) -> tuple[Joining, list[FieldProblem]]:
    """What the body says, and what is wrong with its form. A wrong part reads as empty."""
    missing = [name for name in _NEEDED if name not in body]
    problems = [FieldProblem(f"/{name}", "missing", f"Give {name}.") for name in missing]
    secret = _note(problems, read_secret, body.get("secret")) if "secret" in body else b""
    backend = str(body.get("backend", ""))
    rows = {kind: _rows(kind, body.get(kind, []), backend, problems) for kind in _ROWS}
    force = body.get("force", False)
    if not isinstance(force, bool):
        problems.append(FieldProblem("/force", "wrong_type", "Give true or false."))
    configured = {name: body.get(name, default) for name, default in _DEFAULTS.items()}
    configured |= {name: body.get(name, "") for name in ("backend", "endpoint")}
    joining = Joining(
        name=body.get("name", ""),
        configured=configured,
        secret=secret or b"",
        flavors=rows["flavors"],
        accounts=rows["accounts"],
        force=force is True,
    )
    return joining, problems


def _note(problems: list[FieldProblem], read: Any, value: object) -> bytes | None:
    secret, problem = read(value)
    if problem is not None:
        problems.append(problem)
    return secret if isinstance(secret, bytes) else None


def read_secret(value: object) -> tuple[bytes | None, FieldProblem | None]:
    """The bytes of a secret given as base64 text, or what is wrong; the value is never repeated."""
    if isinstance(value, str):
        try:
            decoded = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        if decoded:
            return decoded, None
    words = "Give the cluster's key as base64 text: base64 -w0 jwt_hs256.key."
    return None, FieldProblem("/secret", "invalid_secret", words)


def _rows(
    kind: str, given: object, backend: str, problems: list[FieldProblem]
) -> tuple[Mapping[str, str], ...]:
    """The rows of a list of small objects of texts, those of the right form."""
    if not isinstance(given, list) or len(given) > MOST_ROWS:
        words = f"Give a list of at most {MOST_ROWS} objects."
        problems.append(FieldProblem(f"/{kind}", "wrong_type", words))
        return ()
    rows = []
    for index, row in enumerate(given):
        found = list(_row_problems(f"/{kind}/{index}", _ROWS[kind], row, backend))
        problems.extend(found)
        if not found:
            rows.append({name: row.get(name, other) for name, other in _ROWS[kind].items()})
    problems.extend(_twice(kind, rows))
    return tuple(rows)


def _row_problems(
    at: str, known: Mapping[str, Any], row: object, backend: str
) -> Iterator[FieldProblem]:
    if not isinstance(row, dict):
        yield FieldProblem(at, "wrong_type", f"Give an object of {', '.join(known)}.")
        return
    for name in row.keys() - known.keys():
        words = f"Known: {', '.join(known)}."
        yield FieldProblem(f"{at}/{str(name)[:100]}", "unknown_field", words)
    for name, other in known.items():
        if name not in row and other is None:
            yield FieldProblem(f"{at}/{name}", "missing", f"Give {name}.")
        elif not isinstance(row.get(name, ""), str):
            yield FieldProblem(f"{at}/{name}", "wrong_type", "Give text in quotes.")
    if "account" in known and isinstance(row.get("account"), str):
        yield from rules.person_account_problems(f"{at}/account", row["account"], backend)
        yield from rules.home_problems(f"{at}/home", row.get("home", ""))
        yield from rules.run_as_problems(f"{at}/run_as", row.get("run_as", ""), backend)
    if "device" in known and isinstance(row.get("device"), str):
        yield from rules.device_problems(f"{at}/device", row["device"], backend)
        yield from rules.word_problems(f"{at}/queue", row.get("queue", ""), may_be_empty=True)


def _twice(kind: str, rows: list[dict[str, str]]) -> Iterator[FieldProblem]:
    """What may stand once: a flavor, a device, a person."""
    for name in ("flavor", "device") if kind == "flavors" else ("user",):
        seen: set[str] = set()
        for index, row in enumerate(rows):
            if row[name] in seen:
                words = f"{row[name][:100]} stands twice."
                yield FieldProblem(f"/{kind}/{index}/{name}", "duplicate", words)
            seen.add(row[name])
