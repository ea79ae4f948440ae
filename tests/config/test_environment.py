"""Settings from the environment: typed, complete in `.env.example`, and strict."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from config.environment import (
    OTHER_VARIABLES,
    BadEnvironmentError,
    Environment,
    read_environment,
)

NEEDED = {
    "DATABASE_URL": "postgres://muster@localhost/muster",
    "REDIS_URL": "redis://localhost:6379/0",
    "MUSTER_SECRET_KEY": "s" * 32,
    "MUSTER_ENCRYPTION_KEYS": "newest,older",
}
UNPREFIXED = {"database_url", "database_direct_url", "redis_url"}


def variable(name: str) -> str:
    return name.upper() if name in UNPREFIXED else f"MUSTER_{name.upper()}"


VARIABLES = {variable(field.name): field for field in fields(Environment)}


def read(monkeypatch: pytest.MonkeyPatch, **changes: str | None) -> Environment:
    for name in VARIABLES.keys() | {f"{name}_FILE" for name in VARIABLES} | OTHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    given = {name: value for name, value in {**NEEDED, **changes}.items() if value is not None}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return read_environment(given)


def test_four_variables_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch)
    assert settings.database_direct_url == settings.database_url == NEEDED["DATABASE_URL"]
    assert settings.encryption_keys == ("newest", "older")
    assert settings.secure_cookies is True
    assert settings.debug is False


@pytest.mark.parametrize("name", NEEDED)
def test_each_of_them_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadEnvironmentError, match=name):
        read(monkeypatch, **{name: None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MUSTER_SECRET_KEY", "short"),
        ("MUSTER_ENCRYPTION_KEYS", ""),
        ("MUSTER_DEBUG", "perhaps"),
        ("MUSTER_LEASE_MS", "a minute"),
        ("MUSTER_LEASE_MS", ""),
        ("MUSTER_PUBLIC_URL", "muster.example"),
        ("MUSTER_PUBLIC_URL", "https://muster.example/"),
        ("MUSTER_COLOUR", "red"),
        ("MUSTER_COLOUR_FILE", "/etc/hostname"),
        ("MUSTER_SECRET_KEY_FILE", "/nowhere/at/all"),
    ],
)
def test_what_is_wrong_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, str | None] = {name: value}
    if name == "MUSTER_SECRET_KEY_FILE":
        changes["MUSTER_SECRET_KEY"] = None
    with pytest.raises(BadEnvironmentError) as error:
        read(monkeypatch, **changes)
    assert name.removesuffix("_FILE") in str(error.value)
    assert "s" * 32 not in str(error.value)


def test_secrets_may_lie_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("f" * 40 + "\n")
    changes = {"MUSTER_SECRET_KEY": None, "MUSTER_SECRET_KEY_FILE": str(path)}
    assert read(monkeypatch, **changes).secret_key == "f" * 40


def test_other_programs_variables_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, MUSTERED_UP="1", MY_MUSTER_X="1", PATH="/bin")


def default_of(name: str) -> str:
    default = VARIABLES[name].default
    if isinstance(default, bool):
        return str(default).lower()
    return ",".join(default) if isinstance(default, tuple) else str(default)


def test_the_example_holds_every_variable_and_no_other() -> None:
    text = Path(".env.example").read_text()
    listed = re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", text, re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(VARIABLES)
    tuned = [(name, value) for name, value in listed if name.endswith("_MS") or "CALLS" in name]
    assert tuned == [(name, default_of(name)) for name, _ in tuned]


def test_the_reference_page_says_something_of_each_with_its_default() -> None:
    rows = re.findall(
        r"^\| `([A-Z_]+)` \| ([^|]*) \| [^|]{10,} \|$",
        Path("docs/reference/configuration.md").read_text(),
        re.MULTILINE,
    )
    assert sorted(name for name, _ in rows) == sorted(VARIABLES)
    for name, shown in rows:
        if name not in NEEDED and name != "DATABASE_DIRECT_URL":
            assert shown == (f"`{default_of(name)}`" if default_of(name) else "nothing"), name
