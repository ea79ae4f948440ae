"""Where a foreign file's job is to go: what the caller and the federation add to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from federation.intake.findings import Findings
from kit.errors import FieldProblem

MOST_FLAVORS = 16
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Who submits to where, and when.

    Attributes:
        tenant: the path of the tenant, or why there is none.
        now: the time of the request; `--begin=now+1hour` counts from it.
        is_named: whether the request names the tenant, so that `--account` does not.
        asked: the flavors that the caller named, best first.
        entitled: the flavors that the tenant has quota for, best first.
        models: the flavors by what a GPU is called: on a cluster or in the catalogue, lower case.
    """

    tenant: str | FieldProblem
    now: datetime
    is_named: bool = False
    asked: tuple[str, ...] = ()
    entitled: tuple[str, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Who says which flavors are acceptable, as the beginning of a sentence."""
        return "?flavor= names" if self.asked else f"{self.tenant} has quota for"


class Narrowing(NamedTuple):
    """What a line says of the GPU model: whose line it is, in which words, and the flavors it means."""

    line: int
    option: str
    words: str
    flavors: frozenset[str]


def narrowed(place: Place, narrowings: Iterable[Narrowing], findings: Findings) -> list[str]:
    """The acceptable flavors: those asked for, else those of the quota, as far as every line allows.

    Empty where none is left, which is told unless the tenant is missing.
    """
    known = len(findings.problems)
    left = place.asked or place.entitled
    for one in narrowings:
        if left and not one.flavors.intersection(left):
            meant = listed(sorted(one.flavors))
            detail = f"{one.words} {meant}, but {place.source} {listed(left)}."
            findings.refuse(one.line, "flavor_not_accepted", one.option, detail)
        left = tuple(flavor for flavor in left if flavor in one.flavors)
    if not left and len(findings.problems) == known and isinstance(place.tenant, str):
        detail = (
            f"{place.tenant} has no quota for any GPU model, nor has a tenant above it. "
            "Ask its owner for quota, or name a model with ?flavor=."
        )
        findings.refuse(1, "no_flavor", "", detail)
    return list(left[:MOST_FLAVORS])


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first twenty of them."""
    shown = ", ".join(names[:_MOST_SHOWN])
    return f"{shown} and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else shown
