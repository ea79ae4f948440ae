"""Where a foreign file's job is to go: what the caller and the federation add to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

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


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, the first twenty of them."""
    shown = ", ".join(names[:_MOST_SHOWN])
    return f"{shown} and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else shown
