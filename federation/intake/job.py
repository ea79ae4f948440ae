"""The job that a foreign file became, or everything that is wrong with it at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.core.spec import JobSpec, parse_spec
from federation.intake.findings import MOST, Findings, Remark, relocate
from kit.errors import FieldProblem

_LINE = "/lines/"
# As people read a job: who, what, how long, how.
_FIELDS = (
    "name", "tenant", "priority", "flavors", "gang", "topology", "time_limit", "checkpoint", "run",
    "environment", "labels", "clusters", "not_before",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """The job that a file became.

    `body` is what `POST /jobs` would take, `spec` the same parsed. `dropped` are options or fields
    that the job goes without.
    """

    body: dict[str, Any]
    spec: JobSpec
    warnings: tuple[Remark, ...]
    dropped: tuple[Remark, ...]
    origins: Mapping[str, int]

    def told(self, problem: FieldProblem) -> FieldProblem:
        """A problem that was found with the job later, told where the file or request says it."""
        return _told(problem, self.origins)


def made_of(body: Mapping[str, Any], findings: Findings) -> ForeignJob | tuple[FieldProblem, ...]:
    """The job of a body, or every problem, in order of the lines; at most 100.

    What the body lacks because something else was refused is not told again.
    """
    body = {name: body[name] for name in _FIELDS if name in body}
    spec = parse_spec(body)
    if isinstance(spec, tuple):
        is_whole = not findings.problems
        findings.problems.extend(
            _told(problem, findings.origins)
            for problem in spec
            if is_whole or problem.code != "required"
        )
    if findings.problems or isinstance(spec, tuple):
        return in_order(findings)
    warnings = sorted(findings.warnings, key=lambda remark: remark.line)
    dropped = sorted(findings.dropped, key=lambda remark: remark.line)
    return ForeignJob(body, spec, tuple(warnings), tuple(dropped), findings.origins)


def in_order(findings: Findings) -> tuple[FieldProblem, ...]:
    """The problems in order of the lines, the first hundred of them."""
    return tuple(sorted(findings.problems[:MOST], key=_line_of))


def _told(problem: FieldProblem, origins: Mapping[str, int]) -> FieldProblem:
    """At its line; what came from the request and not from a line, at the query parameter."""
    told = relocate(problem, origins)
    for field in ("tenant", "flavor"):
        if told.pointer.startswith(f"/{field}"):
            return FieldProblem(f"?{field}", told.code, told.detail)
    return told


def _line_of(problem: FieldProblem) -> int:
    """The line that a problem names; what names none comes first."""
    return int(problem.pointer[len(_LINE) :]) if problem.pointer.startswith(_LINE) else 0
