"""An sbatch script to a job of ours, or everything that is wrong with it at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.intake.findings import Findings
from federation.intake.job import ForeignJob, in_order, made_of
from federation.intake.place import Place
from federation.intake.sbatch.arguments import Given, read_arguments
from federation.intake.sbatch.fields import set_fields
from federation.intake.sbatch.image import set_image
from federation.intake.sbatch.lines import Lines, read_lines
from federation.intake.sbatch.mistakes import warn_of_mistakes
from federation.intake.sbatch.place import choose_flavors
from federation.intake.sbatch.shape import Shape, read_shape
from kit.errors import FieldProblem


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it was read. `lines` None: it is no batch script to begin with."""

    text: str
    lines: Lines | None
    given: Mapping[str, Given]
    findings: Findings

    @property
    def account(self) -> Given | None:
        """The option that names who is billed."""
        return self.given.get("account")


def read_sbatch(text: str) -> Script:
    """The options of a script, as sbatch itself reads them. Never raises, whatever the text."""
    findings = Findings()
    lines = read_lines(text, findings)
    given = read_arguments(lines.words, findings) if lines else {}
    if lines and lines.others and "ignore-pbs" not in given:
        detail = (
            "sbatch translates lines for other batch systems, Muster does not. Write them as "
            "#SBATCH, or add #SBATCH --ignore-pbs."
        )
        findings.refuse(lines.others, "not_supported", "#PBS, #BSUB", detail)
    return Script(text, lines, given, findings)


def job_of(script: Script, place: Place) -> ForeignJob | tuple[FieldProblem, ...]:
    """The job of a script, or every problem, in order of the lines; at most 100."""
    findings, lines = script.findings.copy(), script.lines
    if isinstance(place.tenant, FieldProblem):
        findings.problems.append(place.tenant)
    if lines is None:
        return in_order(findings)
    body, shape = _body(script, place, findings)
    if shape is not None:
        warn_of_mistakes(lines, shape, findings)
        set_image(script.given, lines, shape, body, findings)
    return made_of(body, findings)


def _body(script: Script, place: Place, findings: Findings) -> tuple[dict[str, Any], Shape | None]:
    """The body as far as it can be made, and the gang's shape; what is wrong is told."""
    given = script.given
    body: dict[str, Any] = {"run": {"script": script.text}}
    shape = read_shape(given, findings)
    if shape is not None:
        body["gang"] = shape.gang()
        if shape.tasks_per_node != 1:
            body["run"]["tasks_per_node"] = shape.tasks_per_node
    set_fields(given, body, place.now, findings)
    if isinstance(place.tenant, str):
        body["tenant"] = place.tenant
    account = script.account
    if account is not None and place.is_named:
        findings.drop(account.line, account.option.long, "The request names the tenant.")
    elif account is not None:
        findings.origins["/tenant"] = account.line
    if flavors := choose_flavors(given, place, findings):
        body["flavors"] = flavors
    return body, shape
