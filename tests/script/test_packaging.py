"""What a stranger's machine relies on: locked requirements, the compose file, the ignored files."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from script import compose_secrets, lock, processes
from script.bootstrap import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
IN_CONTAINERS = processes.Layout(host="0.0.0.0", web_host="0.0.0.0", web_port=8000)  # noqa: S104


@pytest.mark.parametrize("name", lock.direct_dependencies())
def test_a_lock_names_no_host_and_hashes_every_package(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file:", text)
    packages = lock.locked(text)
    assert all(packages.values()), [package for package, hashes in packages.items() if not hashes]
    assert set(lock.direct_dependencies()[name]) <= set(packages)


def test_the_development_lock_holds_all_of_the_runtime_lock_at_the_same_versions() -> None:
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9\[\],._-]+==[^ ;\\]+", (ROOT / name).read_text(), re.M))

    assert pins("requirements.txt") <= pins("requirements-traces.txt")
    assert pins("requirements-traces.txt") <= pins("requirements-dev.txt")


def test_the_compose_file_is_valid_by_the_compose_schema() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*check, str(ROOT / "docker-compose.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_compose_file_runs_every_process_with_the_demos_command_lines() -> None:
    services = COMPOSE["services"]
    expected = processes.commands(IN_CONTAINERS)
    assert {name: tuple(services[name]["command"]) for name in expected} == expected
    assert set(services) == {"postgres", "valkey", "migrate", *expected}
    upstream = services["stream"]["environment"]["MUSTER_WEB_UPSTREAM"]
    assert upstream == processes.web_upstream(IN_CONTAINERS, web_host="web")


@pytest.mark.parametrize("name", ["migrate", *processes.commands(IN_CONTAINERS)])
def test_a_container_of_ours_has_no_rights_it_does_not_need(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert processes.ENVIRONMENT.items() <= service["environment"].items()
    values = service["environment"].values()
    assert not [value for value in values if re.search(r"://[^/]*:[^/]*@", str(value))]


def test_only_the_front_publishes_a_port() -> None:
    assert [name for name, service in COMPOSE["services"].items() if "ports" in service] == [
        "stream"
    ]


def test_the_compose_secrets_are_the_files_that_script_secrets_makes(tmp_path: Path) -> None:
    named = {Path(secret["file"]).name for secret in COMPOSE["secrets"].values()}
    assert named == set(compose_secrets.files())
    directory = tmp_path / "secrets"
    assert compose_secrets.main(["--directory", str(directory)]) == 0
    before = {path.name: path.read_text() for path in directory.iterdir()}
    assert before["postgres_password"] in before["database_url"]
    assert directory.stat().st_mode & 0o077 == 0
    assert compose_secrets.main(["--directory", str(directory)]) == 0
    assert {path.name: path.read_text() for path in directory.iterdir()} == before


def test_the_image_runs_as_an_ordinary_user_from_the_locked_requirements() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["10001"]
    assert "ARG REQUIREMENTS=requirements.txt" in lines
    assert any("--require-hashes" in line and "${REQUIREMENTS}" in line for line in lines)
    copied = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied[0] == "*"
    assert {"!config", "!kit", "!manage.py", "!pyproject.toml"} <= set(copied)


@pytest.mark.parametrize("path", [".venv/x", ".muster/secrets.json", "secrets/secret_key"])
def test_what_belongs_to_one_machine_is_not_committed(path: str) -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", path],
        cwd=ROOT,
        check=False,
    )
    assert ignored.returncode == 0
