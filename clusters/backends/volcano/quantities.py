"""Kubernetes' quantities ("64Gi", "500m", "1e3") as the whole numbers that Muster counts in.

What a node has is rounded down, what a pod asks for is rounded up: so nothing is promised twice.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor

from clusters.core.resources import NodeShape

MIB = 2**20
_SCALE = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_FORM = re.compile(r"([+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE]([+-]?[0-9]{1,2})|([A-Za-z]{0,2}))")


def amount(text: object) -> Fraction:
    """The exact number that a quantity stands for.

    Raises:
        ValueError: it is no quantity.
    """
    match = _FORM.fullmatch(str(text))
    if match is None or (scale := _SCALE.get(match[3] or "")) is None:
        raise ValueError(f"{text!r} is no quantity")
    return Fraction(match[1]) * scale * Fraction(10) ** int(match[2] or 0)


def held(resources: Mapping[str, object], gpu: str) -> NodeShape:
    """What a node gives (`allocatable`): whole GPUs of the resource, whole CPUs, whole MiB."""
    return NodeShape(
        floor(amount(resources.get(gpu, 0))),
        floor(amount(resources.get("cpu", 0))),
        floor(amount(resources.get("memory", 0)) / MIB),
    )


def asked(resources: Mapping[str, object], gpu: str) -> NodeShape:
    """What a pod's container asks for (`requests`), each rounded up."""
    return NodeShape(
        ceil(amount(resources.get(gpu, 0))),
        ceil(amount(resources.get("cpu", 0))),
        ceil(amount(resources.get("memory", 0)) / MIB),
    )
