"""An sbatch script to a job of ours, or everything that is wrong with it at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.core.spec import JobSpec, parse_spec
from federation.intake.sbatch.arguments import Given, read_arguments
from federation.intake.sbatch.fields import set_fields
from federation.intake.sbatch.findings import MOST, Findings, Remark, relocate
from federation.intake.sbatch.lines import Lines, read_lines
from federation.intake.sbatch.mistakes import warn_of_mistakes
from federation.intake.sbatch.place import Place, choose_flavors
from federation.intake.sbatch.shape import Shape, read_shape
from kit.errors import FieldProblem

_LINE = "/lines/"
# As people read a job: who, what, how long, how.
_FIELDS = (
    "name", "tenant", "flavors", "gang", "topology", "time_limit", "checkpoint", "run",
    "environment", "labels", "clusters", "not_before",
)  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class SbatchJob:
    """The job that a script became.

    `body` is what `POST /jobs` would take, `spec` the same parsed. `dropped` are options that the
    job goes without.
    """

    body: dict[str, Any]
    spec: JobSpec
    warnings: tuple[Remark, ...]
    dropped: tuple[Remark, ...]
    origins: Mapping[str, int]

    def told(self, problem: FieldProblem) -> FieldProblem:
        """A problem that was found with the job later, told where the script or request says it."""
        return _told(problem, self.origins)


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


def job_of(script: Script, place: Place) -> SbatchJob | tuple[FieldProblem, ...]:
    """The job of a script, or every problem, in order of the lines; at most 100."""
    findings, lines = script.findings.copy(), script.lines
    if isinstance(place.tenant, FieldProblem):
        findings.problems.append(place.tenant)
    if lines is None:
        return _in_order(findings)
    body, shape = _body(script, place, findings)
    spec = parse_spec(body)
    if isinstance(spec, tuple):
        is_whole = not findings.problems
        findings.problems.extend(
            _told(problem, findings.origins)
            for problem in spec
            if is_whole or problem.code != "required"
        )
    if shape is not None:
        warn_of_mistakes(lines, shape, findings)
    if findings.problems or isinstance(spec, tuple):
        return _in_order(findings)
    warnings = sorted(findings.warnings, key=lambda remark: remark.line)
    dropped = sorted(findings.dropped, key=lambda remark: remark.line)
    return SbatchJob(body, spec, tuple(warnings), tuple(dropped), findings.origins)


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
    return {name: body[name] for name in _FIELDS if name in body}, shape


def _told(problem: FieldProblem, origins: Mapping[str, int]) -> FieldProblem:
    """At its line; what came from the request and not from a line, at the query parameter."""
    told = relocate(problem, origins)
    for field in ("tenant", "flavor"):
        if told.pointer.startswith(f"/{field}"):
            return FieldProblem(f"?{field}", told.code, told.detail)
    return told


def _in_order(findings: Findings) -> tuple[FieldProblem, ...]:
    return tuple(sorted(findings.problems[:MOST], key=_line_of))


def _line_of(problem: FieldProblem) -> int:
    """The line that a problem names; what names none comes first."""
    return int(problem.pointer[len(_LINE) :]) if problem.pointer.startswith(_LINE) else 0
