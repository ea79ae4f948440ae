"""A backup says what it is, and what cannot be restored is refused with the fix in the words."""

import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import Settings

from clusters.services.recall import closed_secrets
from federation.services.commit import begin_term
from script import backup
from script.backup import Server, back_up
from script.console import SetupError
from script.restore import check, restore
from tests import make
from tests.recovery.travel import dump
from tests.stack import database_url

MIGRATIONS = Path(__file__).parents[2] / "accounting" / "migrations"


@pytest.mark.django_db(transaction=True)
def test_a_backup_is_checked_described_and_restored_into_an_empty_database_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_term(now=make.NOW)
    whole = dump(tmp_path)
    told = json.loads(whole.with_suffix(".json").read_text())
    assert told["epoch"] == 1
    newest = max(path.stem for path in MIGRATIONS.glob("0*.py"))
    assert told["migrations"]["accounting"] == newest
    assert stat.S_IMODE(whole.stat().st_mode) == 0o600
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".dump", ".json"]
    check(whole)
    with pytest.raises(SetupError, match="not empty"):
        restore(Server(database_url()), whole)

    broken = tmp_path / "broken.dump"
    broken.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(SetupError, match="cannot be read"):
        check(broken)
    other = Path(shutil.copy(whole, tmp_path / "other.dump"))
    other.with_suffix(".json").write_text(json.dumps(told | {"sha256": "0" * 64}))
    with pytest.raises(SetupError, match="SHA-256 differs"):
        check(other)
    later = told | {"muster": "9.0", "migrations": {"federation": "0999_later"}}
    other.with_suffix(".json").write_text(json.dumps(later))
    with pytest.raises(SetupError, match=r"newer Muster \(9.0\)"):
        check(other)

    old = tmp_path / "bin"
    old.mkdir()
    (old / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    (old / "pg_dump").chmod(0o755)
    real = backup.tool_path
    monkeypatch.setattr(
        backup, "tool_path", lambda tool: old / tool if tool == "pg_dump" else real(tool)
    )
    with pytest.raises(SetupError, match="Set PG_BIN to the programs of version"):
        back_up(Server(database_url()), tmp_path / "bin")


@pytest.mark.django_db
def test_keys_that_do_not_open_a_secret_are_told(settings: Settings) -> None:
    make.cluster("aurora")
    assert closed_secrets() == []
    lost = ("tVfmsZuB4VTOIvHUKnGDCEKF5RAW7IbRMXDWqZnJh9c=",)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, encryption_keys=lost)
    assert closed_secrets() == ["aurora"]
