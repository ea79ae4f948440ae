"""A mapping whose values are made when they are asked for."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Source = TypeVar("Source")
Value = TypeVar("Value")


class LazyMapping(Mapping[Key, Value]):
    """Values by key: each is made of its source the first time that it is asked for, and kept.

    Keys whose source is one object share one value.
    """

    def __init__(self, sources: Mapping[Key, Source], make: Callable[[Source], Value]) -> None:
        """`make` has to give the same whenever it is called."""
        self._sources: Mapping[Key, object] = sources
        self._make: Callable[[Key], Value] = lambda key: make(sources[key])
        self._made: dict[int, Value] = {}

    def __getitem__(self, key: Key) -> Value:
        source = self._sources[key]
        if id(source) not in self._made:
            self._made[id(source)] = self._make(key)
        return self._made[id(source)]

    def shared(self) -> Collection[list[Key]]:
        """The keys, those that have one value together; no value is made."""
        keys: dict[int, list[Key]] = {}
        for key, source in self._sources.items():
            keys.setdefault(id(source), []).append(key)
        return keys.values()

    def __contains__(self, key: object) -> bool:
        return key in self._sources

    def __iter__(self) -> Iterator[Key]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
