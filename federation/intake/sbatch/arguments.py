"""Words to options, as sbatch reads them with `getopt_long`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from federation.core.spec.kinds import did_you_mean
from federation.intake.fate import Fate
from federation.intake.findings import Findings
from federation.intake.sbatch.lines import Word
from federation.intake.sbatch.option import Option, Takes
from federation.intake.sbatch.refused import OF_SRUN
from federation.intake.sbatch.table import OPTIONS, SHORT


@dataclass(frozen=True, slots=True)
class Given:
    """An option as it stands in the script; `value` None = none was given."""

    line: int
    option: Option
    value: str | None

    @property
    def text(self) -> str:
        """The value; none and an empty one are the same."""
        return self.value or ""


def read_arguments(words: Iterable[Word], findings: Findings) -> dict[str, Given]:
    """The options by their names; of one that stands twice the later, with a warning.

    A value may stand in the next word, also in the next directive; a long name may be cut short
    while it is still one option's. Words that belong to no option are refused, as sbatch does.
    """
    given: dict[str, Given] = {}
    for one in _options(iter(words), findings):
        name = one.option.same_as or one.option.name
        earlier = given.get(name)
        if earlier and one.option.fate is not Fate.CARRIED:
            detail = f"It stands in line {earlier.line} already; the later line counts."
            findings.warn(one.line, "repeated", one.option.long, detail)
        given[name] = one
    return given


def _options(words: Iterator[Word], findings: Findings) -> Iterator[Given]:
    for word in words:
        if findings.is_full:
            return
        text = word.text
        if text.startswith("--") and len(text) > 2:
            yield from _long(word, words, findings)
        elif text.startswith("-") and text not in ("-", "--"):
            yield from _short(word, words, findings)
        else:
            detail = f"{_shown(text)} is no option. A value with blanks needs quotes."
            findings.refuse(word.line, "invalid_directive", "#SBATCH", detail)


def _long(word: Word, words: Iterator[Word], findings: Findings) -> Iterator[Given]:
    name, equals, value = word.text[2:].partition("=")
    option = _named(name, word.line, findings)
    if option is None:
        return
    if equals and option.takes is Takes.NOTHING:
        findings.refuse(word.line, "invalid_value", option.long, "It takes no value.")
    elif equals or option.takes is not Takes.VALUE:
        yield Given(word.line, option, value if equals else None)
    else:
        yield from _with_next(word.line, option, words, findings)


def _with_next(
    line: int, option: Option, words: Iterator[Word], findings: Findings
) -> Iterator[Given]:
    """An option whose value is the next word, whatever that looks like."""
    following = next(words, None)
    if following is None:
        findings.refuse(line, "missing_value", option.long, "It needs a value.")
    else:
        yield Given(line, option, following.text)


def _short(word: Word, words: Iterator[Word], findings: Findings) -> Iterator[Given]:
    """Letters without a value may stand together; behind one with a value comes the value."""
    for at, letter in enumerate(word.text[1:], 2):
        option = SHORT.get(letter)
        if option is None:
            detail = f"sbatch has no option -{_shown(letter)}."
            findings.refuse(word.line, "unknown_option", f"-{letter}", detail)
            return
        if option.takes is Takes.NOTHING:
            yield Given(word.line, option, None)
            continue
        rest = word.text[at:]
        if rest or option.takes is Takes.OPTIONAL:
            yield Given(word.line, option, rest or None)
        else:
            yield from _with_next(word.line, option, words, findings)
        return


def _named(name: str, line: int, findings: Findings) -> Option | None:
    option = OPTIONS.get(name)
    if option is not None:
        return option
    near = [known for known in OPTIONS if known.startswith(name)] if name else []
    if len(near) == 1:
        return OPTIONS[near[0]]
    shown = f"--{_shown(name)}"
    if near:
        detail = f"It may be {', '.join(f'--{known}' for known in near[:5])}."
        findings.refuse(line, "ambiguous_option", shown, detail)
    elif name in OF_SRUN:
        detail = "It is an option of srun, not of sbatch. Put it on the srun line."
        findings.refuse(line, "unknown_option", shown, detail)
    else:
        detail = f"sbatch has no such option.{did_you_mean(name, OPTIONS)}"
        findings.refuse(line, "unknown_option", shown, detail)
    return None


def _shown(text: str) -> str:
    """A word as it may stand in an answer."""
    return text if len(text) <= 60 else f"{text[:60]}…"
