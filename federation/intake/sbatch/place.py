"""What the caller and the federation add to a script: the tenant, and which GPU models will do."""

import re
from collections.abc import Iterator, Mapping, Sequence

from federation.core.spec.kinds import did_you_mean
from federation.intake.findings import Findings, line_pointer
from federation.intake.place import Narrowing, Place, listed, narrowed
from federation.intake.sbatch.arguments import Given
from federation.intake.sbatch.shape import gpu_kinds
from kit.errors import FieldProblem

_MODELS = re.compile(r"[\w.-]+(?:\|[\w.-]+)*")


def tenant_of_account(
    account: Given | None, found: Sequence[str], known: Sequence[str]
) -> str | FieldProblem:
    """The tenant that `--account` means: a path, or the last part of exactly one.

    `found` are the tenants of that path or last part where the caller may submit, `known` some of
    all those where they may.
    """
    there = f" You may submit to {listed(known)}." if known else " You may submit nowhere."
    if account is None:
        detail = f"Say which tenant: ?tenant=, or a line such as #SBATCH --account=TENANT.{there}"
        return FieldProblem("?tenant", "no_tenant", detail)
    name = account.text.lower()
    exact = [path for path in found if path == name]
    if len(exact or found) == 1:
        return (exact or list(found))[0]
    where = f"line {account.line}, {account.option.long}"
    if found:
        detail = f"{where}: {name[:100]} may be {listed(found)}. Write the whole path."
        return FieldProblem(line_pointer(account.line), "ambiguous_tenant", detail)
    detail = f"{where}: there is no tenant {name[:100]!r}.{there}"
    return FieldProblem(line_pointer(account.line), "unknown_tenant", detail)


def choose_flavors(given: Mapping[str, Given], place: Place, findings: Findings) -> list[str]:
    """The acceptable flavors: those asked for, else those of the quota, narrowed by GPU types.

    Empty where none is left, which is told unless the tenant is missing.
    """
    return narrowed(place, _narrowings(given, place.models, findings), findings)


def _narrowings(
    given: Mapping[str, Given], models: Mapping[str, tuple[str, ...]], findings: Findings
) -> Iterator[Narrowing]:
    """The options that name GPU models; what is none is told."""

    def narrowing(one: Given, kinds: Sequence[str]) -> Narrowing:
        findings.origins["/flavors"] = one.line
        flavors = frozenset(flavor for kind in kinds for flavor in models[kind])
        return Narrowing(one.line, one.option.long, f"{one.text[:60]} is", flavors)

    for kind, one in gpu_kinds(given).items():
        if kind in models:
            yield narrowing(one, [kind])
        else:
            near = did_you_mean(kind, models)
            there = listed(sorted(models))
            detail = f"No cluster has a GPU called {kind[:60]!r}.{near} There are {there}."
            findings.refuse(one.line, "unknown_gpu", one.option.long, detail)
    wanted = given.get("constraint")
    if wanted is None:
        return
    text = wanted.text.lower().strip("[]()")
    kinds = text.split("|") if _MODELS.fullmatch(text) else []
    if kinds and all(kind in models for kind in kinds):
        yield narrowing(wanted, kinds)
    else:
        detail = (
            f"{wanted.text[:60]!r} names no GPU model. Features of nodes are each cluster's own, "
            "and Muster pins nodes by itself. Take the line out, or ask for a GPU model."
        )
        findings.refuse(wanted.line, "refused", wanted.option.long, detail)
