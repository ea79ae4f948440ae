"""The federation that the scripts of these tests are read for."""

from typing import Any

from federation.intake.job import ForeignJob
from federation.intake.place import Place
from federation.intake.sbatch import job_of, read_sbatch, tenant_of_account
from tests.make import NOW

TENANTS = ("acme/speech", "acme/vision", "acme/vision/pretrain", "rivals/speech")
MODELS = {
    "a100": ("a100-sxm-80",),
    "a100-sxm-80": ("a100-sxm-80",),
    "h100": ("h100-sxm-80",),
    "h100-sxm-80": ("h100-sxm-80",),
    "h200": ("h200-sxm-141",),
    "h200-sxm-141": ("h200-sxm-141",),
}


def place(**changes: Any) -> Place:
    """A tenant with quota for two models of three."""
    known: dict[str, Any] = {
        "tenant": "acme/vision",
        "now": NOW,
        "entitled": ("h100-sxm-80", "a100-sxm-80"),
        "models": MODELS,
        **changes,
    }
    return Place(**known)


def read(text: str, **changes: Any) -> Any:
    """What a script becomes where `--account`, if there is one, names the tenant."""
    script = read_sbatch(text)
    if script.account and "tenant" not in changes:
        name = script.account.text.lower()
        found = [path for path in TENANTS if path == name or path.endswith(f"/{name}")]
        changes["tenant"] = tenant_of_account(script.account, found, TENANTS)
    return job_of(script, place(**changes))


def outcome(text: str, **changes: Any) -> dict[str, Any]:
    """The same as plain values: the job without its script, or what it is refused for."""
    made = read(text, **changes)
    if not isinstance(made, ForeignJob):
        return {"refused": [[problem.pointer, problem.code] for problem in made]}
    assert made.body["run"]["script"] == text
    run = {name: value for name, value in made.body["run"].items() if name != "script"}
    return {
        "job": {
            **{k: v for k, v in made.body.items() if k != "run"},
            **({"run": run} if run else {}),
        },
        "warnings": [[w.line, w.code, w.option] for w in made.warnings],
        "dropped": [[d.line, d.option] for d in made.dropped],
    }
