"""What a check of a running installation found: said plainly, with what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

HIDDEN = "***"


class Level(StrEnum):
    """How bad it is; only an error means that something does not work."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


RANKS = {Level.OK: 0, Level.WARNING: 1, Level.ERROR: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `what` it is, how it is, and the `fix` when it is not well."""

    what: str
    level: Level
    words: str
    fix: str = ""


def worst(findings: Iterable[Finding]) -> Level:
    """The worst level among them; of nothing, ok."""
    return max((finding.level for finding in findings), key=RANKS.__getitem__, default=Level.OK)


def graded(
    what: str, words: str, value: float, *, warning: float, error: float, fix: str
) -> Finding:
    """A finding about a number that should be small: from `warning` and from `error` on, worse."""
    if value >= error:
        return Finding(what, Level.ERROR, words, fix)
    if value >= warning:
        return Finding(what, Level.WARNING, words, fix)
    return Finding(what, Level.OK, words)


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without any of the secrets, whatever a driver's message quotes."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def as_text(findings: Sequence[Finding]) -> str:
    """One line a finding, and one below it that says what to do."""
    width = max((len(finding.what) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.what:<{width}}  {finding.words}")
        if finding.fix:
            lines.append(f"{'':<{width + 11}}-> {finding.fix}")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> dict[str, object]:
    """The same as a document: `level` is the worst of all."""
    return {
        "level": worst(findings).value,
        "findings": [{**asdict(finding), "level": finding.level.value} for finding in findings],
    }
