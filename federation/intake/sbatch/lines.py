"""The lines of a script as sbatch reads them: which are directives, and into which words they fall.

The rules are those of Slurm's own reader (`src/sbatch/opt.c` and `sbatch.c`, 22.05 to 25.11):
lines that begin with `#SBATCH` up to the first line that is neither blank nor a comment; words are
parted by blanks, grouped by quotes, and an unquoted `#` begins a comment.
"""

import re
from dataclasses import dataclass, field
from unicodedata import category

from federation.intake.findings import Findings

LONGEST = 1 << 20  # characters, as `run.script`
_BLANKS = " \t\v\f\r"
_SPACE = re.compile(r"[ \t\v\f\r]+")
_MAGIC = ("#SBATCH", "#SLURM")
_PARTED = re.compile(r"(?:het|pack)job(?=[ \t\v\f\r]|$)", re.IGNORECASE)
_NEEDS_CARE = re.compile(r"[\"'\\#]|(?:^|[ \t\v\f\r]):")
_KEPT = re.compile(r"\\(.)")
_PIECE = re.compile(
    r"""\\(?P<kept>.)|(?P<quote>["'])(?P<quoted>(?:[^\\]|\\.)*?)(?P=quote)"""
    r"""|(?P<plain>[^ \t\v\f\r"'\\#]+)|(?P<blank>[ \t\v\f\r]+)|(?P<comment>\#)|(?P<open>["'])"""
)
_LATE = re.compile(r"^#SBATCH", re.MULTILINE)
_OTHERS = re.compile(r"^#(?:PBS|BSUB)\b", re.MULTILINE)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a directive."""

    line: int
    text: str


@dataclass(slots=True)
class Lines:
    """What the lines hold. `body_from` is the first line that is run; `others` the first line for
    another batch system, 0 = none."""

    words: list[Word] = field(default_factory=list)
    body: str = ""
    body_from: int = 1
    others: int = 0


def read_lines(text: str, findings: Findings) -> Lines | None:
    """The words of all directives; None where the text is no batch script to begin with."""
    if not _is_script(text, findings):
        return None
    read = Lines()
    number, start = 0, 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, number = text[start:end], number + 1
        if line.startswith(_MAGIC):
            _read_directive(line, number, read.words, findings)
        elif (bare := line.lstrip(_BLANKS)) and bare[0] != "#":
            break
        start = end + 1
    read.body, read.body_from = text[start:], number
    _tell_late(read, findings)
    other = _OTHERS.search(text)
    read.others = text.count("\n", 0, other.start()) + 1 if other else 0
    return read


def _is_script(text: str, findings: Findings) -> bool:
    """What sbatch looks at first, and what no job's script may hold."""
    if not text.strip():
        findings.refuse(1, "empty", "", "The script is empty.")
    elif len(text) > LONGEST:
        findings.refuse(1, "too_long", "", f"Give at most {LONGEST} characters.")
    elif not text.startswith("#!"):
        mark = " It begins with a byte order mark; save it without." if text[0] == "\ufeff" else ""
        detail = f'Begin with "#!" and the interpreter, as in "#!/bin/bash".{mark}'
        findings.refuse(1, "no_interpreter", "", detail)
    elif "\0" in text:
        line = _line_of(text, "\0")
        findings.refuse(line, "null_character", "", "There is a NUL character; sbatch refuses it.")
    elif "\r" in text:
        detail = "Lines end as on DOS (CR LF); sbatch refuses that. Convert them, as dos2unix does."
        findings.refuse(_line_of(text, "\r"), "dos_line_breaks", "", detail)
    elif line := _hidden_line(text):
        detail = "Remove control characters, invisible marks and unpaired surrogates."
        findings.refuse(line, "control_character", "", detail)
    else:
        return True
    return False


def _line_of(text: str, mark: str) -> int:
    return text.count("\n", 0, text.index(mark)) + 1


def _hidden_line(text: str) -> int:
    """The first line with a character that a script of ours may not hold; 0 = there is none.

    The rule is that of the job's field `run.script`; joiners shape letters and stay.
    """
    if text.replace("\n", " ").replace("\t", " ").isprintable():
        return 0
    odd = {c for c in set(text) if c not in "\n\t\u200c\u200d" and category(c) in _HIDDEN}
    return min((_line_of(text, c) for c in odd), default=0)


def _read_directive(line: str, number: int, words: list[Word], findings: Findings) -> None:
    magic = next(word for word in _MAGIC if line.startswith(word))
    rest = line[len(magic) :].lstrip(_BLANKS)
    if magic != "#SBATCH":
        detail = 'sbatch reads it as a directive. Write "#SBATCH", or put a blank behind "#".'
        findings.warn(number, "old_directive", "#SLURM", detail)
    parted = _PARTED.match(rest)
    if parted:
        detail = "Heterogeneous jobs are not supported: a gang has equal nodes. Submit the parts."
        findings.refuse(number, "heterogeneous_job", parted[0].lower(), detail)
        return
    if not _NEEDS_CARE.search(rest):
        words.extend(Word(number, text) for text in _SPACE.split(rest) if text)
        return
    try:
        words.extend(Word(number, text) for text in split_words(rest))
    except DirectiveError as error:
        findings.refuse(number, error.code, "#SBATCH", error.detail)


class DirectiveError(ValueError):
    """A directive that sbatch cannot read, or that its releases read differently."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


def split_words(text: str) -> list[str]:
    """The words of a directive: quotes group, a backslash keeps the next letter, `#` ends the line.

    Quotes and backslashes go, also in the middle of a word. An empty word in quotes ends the line.

    Raises:
        DirectiveError: a quote is not closed, a word begins with a colon, or a backslash keeps a
            blank, which parts words before Slurm 24.05 and not since.
    """
    words: list[str] = []
    letters: list[str] = []
    for piece in _PIECE.finditer(text):
        _check_piece(piece, is_first=not letters)
        if piece["comment"]:
            break
        if not piece["blank"]:
            quoted = _KEPT.sub(r"\1", piece["quoted"] or "")
            letters.append(piece["kept"] or piece["plain"] or quoted)
        elif letters:
            words.append("".join(letters))
            letters = []
            if not words[-1]:
                break
    return [word for word in (*words, "".join(letters)) if word]


def _check_piece(piece: re.Match[str], *, is_first: bool) -> None:
    if piece["open"]:
        raise DirectiveError("unmatched_quote", "A quote is not closed.")
    if is_first and (piece["plain"] or "").startswith(":"):
        raise DirectiveError("invalid_directive", "A word begins with a colon; sbatch refuses it.")
    if piece["kept"] and piece["kept"] in _BLANKS:
        detail = "Releases of Slurm read a backslash before a blank differently. Write quotes."
        raise DirectiveError("invalid_directive", detail)


def _tell_late(read: Lines, findings: Findings) -> None:
    """Directives behind the first command: Slurm ignores them, and people do not know."""
    for late in _LATE.finditer(read.body):
        line = read.body_from + read.body.count("\n", 0, late.start())
        detail = "It stands behind the first command, so sbatch ignores it. Move it up."
        findings.warn(line, "directive_ignored", "#SBATCH", detail)
        if findings.has_warned:
            break
