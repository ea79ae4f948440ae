"""What there is to say about a script: what is wrong, what to mind, what was left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kit.errors import FieldProblem

MOST = 100


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about one line that does not stand in the job's way. `option` "" = none."""

    code: str
    line: int
    option: str
    detail: str

    def to_json(self) -> dict[str, object]:
        """As in the API."""
        return {
            "code": self.code,
            "line": self.line,
            "option": self.option or None,
            "detail": self.detail,
        }


def line_pointer(line: int) -> str:
    """Where a problem of a line is told. What no line says is told at the first."""
    return f"/lines/{line}"


@dataclass(slots=True)
class Findings:
    """Everything found so far; of each kind at most a hundred are kept.

    `origins` says from which line a field of the job came, by the field's JSON pointer.
    """

    problems: list[FieldProblem] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)
    dropped: list[Remark] = field(default_factory=list)
    origins: dict[str, int] = field(default_factory=dict)

    def refuse(self, line: int, code: str, option: str, detail: str) -> None:
        """Something that must be put right first."""
        if not self.is_full:
            where = f"line {line}, {option}" if option else f"line {line}"
            self.problems.append(FieldProblem(line_pointer(line), code, f"{where}: {detail}"))

    def warn(self, line: int, code: str, option: str, detail: str) -> None:
        """Something to mind: the job is taken all the same."""
        if not self.has_warned:
            self.warnings.append(Remark(code, line, option, detail))

    def drop(self, line: int, option: str, detail: str) -> None:
        """An option that the job goes without."""
        if len(self.dropped) < MOST:
            self.dropped.append(Remark("dropped", line, option, detail))

    @property
    def is_full(self) -> bool:
        """Whether more problems would not be told anyway."""
        return len(self.problems) >= MOST

    @property
    def has_warned(self) -> bool:
        """Whether more warnings would not be told anyway."""
        return len(self.warnings) >= MOST

    def ignored(self) -> str:
        """A hint, where a directive stands too late to count; else nothing."""
        late = next((one for one in self.warnings if one.code == "directive_ignored"), None)
        if late is None:
            return ""
        return f" The #SBATCH in line {late.line} stands behind the first command and is ignored."

    def copy(self) -> "Findings":
        """The same findings, to go on from."""
        return Findings(
            list(self.problems), list(self.warnings), list(self.dropped), dict(self.origins)
        )


def relocate(problem: FieldProblem, origins: Mapping[str, int]) -> FieldProblem:
    """A problem of the job's body, told at the line that its field came from, where one is known.

    Of a field within a field (`/gang/nodes/…`) the nearest field above it that is known counts.
    """
    pointer = problem.pointer
    while pointer and pointer not in origins:
        pointer = pointer.rpartition("/")[0]
    if not pointer:
        return problem
    line = origins[pointer]
    detail = f"line {line}, {problem.pointer[1:].replace('/', '.')}: {problem.detail}"
    return FieldProblem(line_pointer(line), problem.code, detail)
