"""Variables of a container: literals, and what comes from secrets."""

import re
from typing import Any

from federation.intake.findings import Findings
from federation.intake.vcjob.walk import Spot

_EXPANDED = re.compile(r"\$\$|(\$\([^)]*\))")


def read_environment(
    container: Spot, run: dict[str, Any], lines: dict[str, int], findings: Findings
) -> dict[str, str]:
    """The literals by name; secrets are put into `run`."""
    variables: dict[str, str] = {}
    for one in container.items("env"):
        name = one.text_of("name")
        if not name:
            findings.refuse(one.line, "required", one.path, "Give the variable's name.")
        elif secret := one.get("valueFrom", "secretKeyRef"):
            _take_key(name, secret, run, lines, findings)
        elif one.get("valueFrom") is None:
            variables[name] = _literal(one, findings)
            lines[f"environment/{name}"] = one.line_of("value")
    for one in container.items("envFrom"):
        name = one.text_of("secretRef", "name")
        if name:
            _put(run, lines, {"name": name, "env": True}, one.line)
        elif one.get("configMapRef") is None:
            findings.refuse(one.line, "required", one.path, "Give secretRef with a name.")
    return variables


def _literal(one: Spot, findings: Findings) -> str:
    """The value as the program sees it: `$$` is one dollar sign to Kubernetes."""
    at = one.get("value")
    value = at.text if at else ""
    named = next((match[1] for match in _EXPANDED.finditer(value) if match[1]), "")
    if at and named:
        detail = (
            f"{named[:60]} would be filled in by Kubernetes; Muster's variables are literal. Write "
            "the value, or let the command put it together."
        )
        findings.refuse(at.line, "not_supported", at.path, detail)
    return value.replace("$$", "$")


def _take_key(
    name: str, secret: Spot, run: dict[str, Any], lines: dict[str, int], findings: Findings
) -> None:
    key = secret.text_of("key")
    if key == name and secret.text_of("name"):
        _put(run, lines, {"name": secret.text_of("name"), "env": name}, secret.line)
        return
    detail = (
        f"A secret's key becomes a variable of its own name; {key[:60]!r} is not {name[:60]!r}. "
        f"Give the secret a key {name[:60]}."
    )
    findings.refuse(secret.line_of("key"), "not_supported", secret.path, detail)


def _put(run: dict[str, Any], lines: dict[str, int], secret: dict[str, Any], line: int) -> None:
    items = run.setdefault("secrets", [])
    lines[f"secrets/{len(items)}"] = line
    lines.setdefault("secrets", line)
    items.append(secret)
