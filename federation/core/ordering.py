"""Whose turn it is: priority then age within a tenant, the lowest share first between tenants.

A turn lasts until one of the tenant's jobs is bound: what cannot start costs nothing and does not
block what can. Each grant counts at once, so that tenants take turns by GPU time and not by jobs.
Tenants compare where their lineages part: teams of one organisation share what it gets. Equal
shares: the one whose next job waits longest.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from operator import itemgetter
from typing import Protocol
from uuid import UUID

from federation.core.draft import Draft
from federation.core.lines import Line, Server, Waits
from federation.core.snapshot import Site, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED
from quotas.core.fair_share import Shares


class _Group:
    """A tenant of the tree with waiting jobs of its own or below, the lowest share first."""

    __slots__ = ("heap", "tenant")

    def __init__(self, tenant: UUID | None) -> None:
        self.tenant = tenant
        self.heap: list[tuple[int, int, int, _Group | Line]] = []


class Turns(Iterator[Line]):
    """Lines in the order of their turns; after each turn shares are read anew."""

    def __init__(
        self, lines: Iterable[Line], lineages: Mapping[UUID, tuple[UUID, ...]], shares: Shares
    ) -> None:
        self._shares = shares
        self._root = _Group(None)
        self._path: list[_Group] = []
        self._line: Line | None = None
        groups: dict[UUID, _Group] = {}
        parents: dict[_Group, _Group] = {}
        for line in lines:
            above = self._root
            for ancestor in lineages[line.tenant]:
                group = groups.get(ancestor)
                if group is None:
                    group = groups[ancestor] = _Group(ancestor)
                    parents[group] = above
                above = group
            self._push(above, line)
        for group in reversed(parents):  # parents were made before their children
            self._push(parents[group], group)

    def __next__(self) -> Line:
        self._put_back()
        if not self._root.heap:
            raise StopIteration
        group, self._path = self._root, [self._root]
        while True:
            found = heappop(group.heap)[3]
            if isinstance(found, Line):
                self._line = found
                return found
            group = found
            self._path.append(group)

    def _put_back(self) -> None:
        if self._line is None:
            return
        last: _Group | Line = self._line
        for group in reversed(self._path):
            self._push(group, last)
            last = group
        self._line = None

    def _push(self, above: _Group, what: "_Group | Line") -> None:
        """Lines a group or line up by its share and its next job; what is empty is left out."""
        if isinstance(what, Line):
            head = what.head
            if head is not None:
                share = self._shares.own(what.tenant)
                heappush(above.heap, (share, head.queued_ms, head.id, what))
        elif what.heap:
            assert what.tenant is not None, "the root hangs below nothing"
            _, queued_ms, first, _ = what.heap[0]
            heappush(above.heap, (self._shares.of(what.tenant), queued_ms, first, what))


def ranking(draft: Draft) -> Callable[[], tuple[int, ...]]:
    """Ranks the queue when somebody asks for it; the draft has to stay as it is."""
    return lambda: rank(draft.ready, draft.lineages, draft.borrowers, draft.bindings)


# A job in a queue to be ranked: since when it waits, its id, the flavor and GPUs that it would get.
_Entry = tuple[int, int, str, int]
_GRANT = itemgetter(2, 3)


def rank(
    ready: Mapping[UUID, Waits],
    lineages: Mapping[UUID, tuple[UUID, ...]],
    shares: Shares,
    bound: Container[int] = (),
) -> tuple[int, ...]:
    """The queue as people see it: the order in which the jobs would go if each one got its turn.

    That is the order in which `Turns` gives them when every job is granted its first option. What
    a subtree is granted is decided within it alone, so each is ordered by itself, from the leaves
    up, and merged into the one above. Those that are `bound` are left out.
    """
    lines: dict[UUID, list[_Entry]] = {}
    below: dict[UUID | None, dict[UUID, None]] = {None: {}}
    for tenant, waits in ready.items():
        lines[tenant] = _entries(waits, bound)
        above: UUID | None = None
        for node in lineages[tenant]:
            below.setdefault(above, {})[node] = None
            above = node

    def ranked(node: UUID | None) -> list[_Entry]:
        parts = []
        if node is not None and node in lines:
            own = lines[node]
            parts.append((shares.course_of_own(node, _grants(own)), own))
        for child in below.get(node, ()):
            subtree = ranked(child)
            parts.append((shares.course(child, _grants(subtree)), subtree))
        return _merged(parts)

    return tuple([entry[1] for entry in ranked(None)])


def _entries(waits: Waits, bound: Container[int]) -> list[_Entry]:
    """The jobs of a tenant in their order."""
    place = waits.place
    entries: list[tuple[tuple[int, int, int], _Entry]] = []
    for kind in waits.kinds:
        option = kind[0].ask.options[0]
        flavor, gpus = option.flavor, option.shape.gpus
        entries += [
            (place(job), (job.queued_ms, job.id, flavor, gpus))
            for job in kind
            if job.id not in bound
        ]
    entries.sort()
    return [entry for _, entry in entries]


def _grants(entries: Iterable[_Entry]) -> Iterator[tuple[str, int]]:
    return map(_GRANT, entries)


def _merged(parts: Sequence[tuple[Iterable[int], list[_Entry]]]) -> list[_Entry]:
    """The parts' entries in the order of their turns; each part comes with its share at each one.

    The lowest share goes first, then the entry that waits longest. What stands behind an entry in
    its part goes after it, even where it would come before it by that measure: at once, as nobody
    else comes between. So an entry goes by the highest measure up to itself, and a stable sort
    does all.
    """
    if len(parts) == 1:
        return parts[0][1]
    keyed: list[tuple[tuple[int, _Entry], _Entry]] = []
    for course, entries in parts:
        keyed += zip(accumulate(zip(course, entries, strict=True), max), entries, strict=True)
    keyed.sort(key=itemgetter(0))
    return [entry for _, entry in keyed]


class Clerk(Server, Protocol):
    """Who finds jobs of a class a site."""

    def serve(self, job: WaitingJob) -> Site | None:
        """Give the job a site if there is one for it now."""


def in_turn(draft: Draft, lines: Iterable[Line], shares: Shares, clerk: Clerk) -> None:
    """Let tenants take turns with their jobs; a turn ends with a job that got a site."""
    for line in Turns(lines, draft.lineages, shares):
        while (job := line.take(clerk)) is not None:
            site = clerk.serve(job)
            if site is not None:
                shares.grant(job.tenant, site.flavor.name, site.option.shape.gpus)
                break


def asking(draft: Draft, service_class: str) -> Iterator[Line]:
    """The jobs that may run in the class and were not served in an earlier pass."""
    for tenant, waits in draft.ready.items():
        yield Line(tenant, waits.of(service_class, "auto"), draft.is_served)


def owned(snapshot: Snapshot, draft: Draft) -> Shares:
    """The tenants' shares as owners: the guaranteed GPUs that they hold."""
    return Shares(draft.lineages, held(snapshot, draft, GUARANTEED))


def held(snapshot: Snapshot, draft: Draft, service_class: str) -> Mapping[tuple[UUID, str], int]:
    """GPUs of a class that each tenant's own jobs hold, were bound to or wait for, by flavor."""
    gpus: Counter[tuple[UUID, str]] = Counter()
    for use in snapshot.uses:
        if use.service_class == service_class:
            gpus[use.tenant, use.flavor] += use.gpus
    for binding in draft.promised:
        if binding.service_class == service_class:
            gpus[binding.tenant, binding.flavor] += binding.shape.gpus
    return gpus
