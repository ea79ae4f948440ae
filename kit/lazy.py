"""A mapping whose values are made when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class LazyMapping(Mapping[Key, Value]):
    """Values by key: each is made the first time that it is asked for, and kept."""

    def __init__(self, keys: Set[Key], make: Callable[[Key], Value]) -> None:
        """`make` is given nothing but `keys`, and has to give the same whenever it is called."""
        self._keys = keys
        self._make = make
        self._made: dict[Key, Value] = {}

    def __getitem__(self, key: Key) -> Value:
        if key not in self._made:
            if key not in self._keys:
                raise KeyError(key)
            self._made[key] = self._make(key)
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
