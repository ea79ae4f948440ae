"""Node features a job asks for: `a&b`, `a|b`, and `[x|y]`, which wants one of them for all nodes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constraint:
    """Every set in `each` must meet a node's features; `same` names blocks, one for the whole job."""

    each: tuple[frozenset[str], ...] = ()
    same: tuple[str, ...] = ()

    def allows(self, features: tuple[str, ...]) -> bool:
        """May a node with these features take part at all?"""
        present = set(features)
        return all(present & wanted for wanted in self.each) and (
            not self.same or bool(present & set(self.same))
        )

    @property
    def names(self) -> frozenset[str]:
        """All features mentioned."""
        return frozenset(self.same).union(*self.each)


def parse_constraint(text: str) -> Constraint:
    """Read a constraint expression; ValueError if it is none of the supported forms."""
    each: list[frozenset[str]] = []
    same: tuple[str, ...] = ()
    for part in _split(text.replace(" ", "")):
        if part.startswith("[") and part.endswith("]") and not same:
            same = tuple(part[1:-1].split("|"))
        elif part and not set(part) & set("[]()*"):
            each.append(frozenset(part.split("|")))
        else:
            raise ValueError(text)
    if not all(name for name in (*same, *(n for s in each for n in s))):
        raise ValueError(text)
    return Constraint(tuple(each), same)


def _split(text: str) -> list[str]:
    """The parts between `&`, which does not split inside brackets."""
    if not text:
        return []
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "&" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
