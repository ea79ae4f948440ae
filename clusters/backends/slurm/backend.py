"""The Slurm backend: the protocol's verbs over slurmrestd."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import quote

from clusters.backends.slurm import errors
from clusters.backends.slurm.client import SlurmClient
from clusters.backends.slurm.limits import limit_command, read_limits, set_limits
from clusters.backends.slurm.observe import observe
from clusters.backends.slurm.probe import probe
from clusters.backends.slurm.read import JobRow, accounting_job, controller_job
from clusters.backends.slurm.shared import SharedRead, Together
from clusters.backends.slurm.translate import is_ours, owner_mark, submit_body
from clusters.backends.slurm.values import Json, number, parsed
from clusters.core.backend import (
    NOT_RUNNING,
    BackendRejectedError,
    BackendUnavailableError,
    ProbeReport,
    Submitted,
)
from clusters.core.gang import Gang
from clusters.core.limits import LimitsSeen
from clusters.core.observation import GangState, Observation

_SIGNAL = re.compile(r"(?:SIG)?([A-Z][A-Z0-9]{1,11})")
LONGEST_WAIT_S = 0.25  # for the other submits in flight, before the list that all of them need
_IS_OVER = (errors.NO_SUCH_JOB, errors.ALREADY_DONE)


class SlurmBackend:
    """One Slurm cluster: reads as the connection's account, writes as the account of the job."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._options = client.connection.options
        self._mark = owner_mark(self._options)
        self._jobs: SharedRead[list[bytes]] = SharedRead(self._read_jobs)
        self._posting = Together(LONGEST_WAIT_S)

    def close(self) -> None:
        """Close the connections it keeps alive."""
        self._client.close()

    def observe(
        self, now_ms: int, fences: Collection[str], since_ms: int | None = None
    ) -> Observation:
        """Everything in a handful of bulk reads; see `observe.observe`."""
        try:
            return observe(self._client, now_ms, fences, since_ms)
        except ValueError as error:  # a host list or number that nobody can read
            raise BackendUnavailableError(f"unreadable: {error}", code="unreadable") from error

    def probe(self, now_ms: int) -> ProbeReport:
        """What this cluster can do for us, each gap with its fix; see `probe.probe`."""
        return probe(self._client, now_ms)

    def submit(self, gang: Gang, *, is_repeat: bool = True, known_as: str = "") -> Submitted:
        """Make the attempt exist once: submit held, list by name, release one, cancel the rest.

        Slurm accepts two jobs of one name, so it is the *release* that is fenced: whoever comes
        second finds the first in the list. `is_repeat` (an earlier call may have arrived) looks
        before it submits, also into accounting, for an attempt that has run and left the
        controller. What was `known_as` an id once is never submitted anew.

        Raises:
            BackendAmbiguousError: the answer was lost; call again with `is_repeat`.
            BackendUnavailableError: not reached, or accounting could not say that it never ran.
            BackendRejectedError: refused in Slurm's own words.
        """
        with self._posting.one():
            found = self._find(gang.fence, gang.account) if is_repeat else ()
            if not found and known_as:
                return Submitted(known_as)
            if not found and is_repeat and (row := self._ran_before(gang.fence, gang.account)):
                return Submitted(str(row.job_id))
            job_id = 0 if found else self._post(gang)
        if not found:
            self._posting.wait()  # the list of a large cluster is megabytes: one for them all
            found = self._find(gang.fence, gang.account)
            if not found:  # not recognised as ours: whatever it has become, it must not run
                self._delete(job_id, gang.account)
                words = f"job {job_id} lost its name or comment on the way: a job_submit plugin?"
                raise BackendRejectedError(words, code="not_ours")
        is_unrun = is_repeat and not job_id and not any(map(_has_begun, found))
        if is_unrun and (ran := self._ran(gang)):
            for row in found:  # a late copy: what it copies ran, and the controller forgot it
                self._delete(row.job_id, gang.account)
            return Submitted(known_as or str(ran.job_id), len(found))
        return self._settle(found, gang)

    def _ran(self, gang: Gang) -> JobRow | None:
        row = self._ran_before(gang.fence, gang.account)
        return row if row is not None and row.started_ms is not None else None

    def cancel(self, fence: str, account: str) -> None:
        """End every job of ours of this name; what is over or absent is no error."""
        for row in self._find(fence, account):
            if not row.state.is_final:
                self._delete(row.job_id, account)

    def signal(self, fence: str, account: str, name: str) -> None:
        """Send a signal to the steps; on 22.05 the batch shell gets it too (see `guard_shell`).

        Raises:
            BackendRejectedError: no such signal, or the attempt does not run.
        """
        match = _SIGNAL.fullmatch(name.upper())
        if match is None:
            raise BackendRejectedError(f"{name!r} is no signal", code="signal")
        running = [row for row in self._find(fence, account) if row.state.holds_nodes]
        if not running:
            raise BackendRejectedError(f"{fence} does not run", code=NOT_RUNNING)
        for row in running:
            self._client.write(
                "DELETE", f"job/{row.job_id}?signal=SIG{match[1]}", account, fine=_IS_OVER
            )

    def reclassify(self, fence: str, account: str, service_class: str) -> None:
        """Move the attempt to another QOS. Slurm lets only pending jobs change it (2073 later)."""
        for row in self._find(fence, account):
            if not row.state.is_final:
                body = {"qos": service_class}
                self._client.write("POST", f"job/{row.job_id}", account, body, fine=())

    def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Let nodes finish and start nothing; from v0.0.39 on (capability `drain`)."""
        self._update_nodes(nodes, {"state": ["DRAIN"], "reason": reason})

    def undrain(self, nodes: Sequence[str]) -> None:
        """Give drained nodes back (capability `drain`)."""
        self._update_nodes(nodes, {"state": ["RESUME"]})

    def limits(self) -> LimitsSeen:
        """GrpTRES of all accounts; without accounting there are none."""
        if self._options.get("accounting") == "off":
            raise BackendRejectedError("it has no accounting", code="no_accounting")
        return read_limits(self._client)

    def set_limits(self, wanted: Mapping[str, Mapping[str, int]], name: str) -> dict[str, str]:
        """GrpTRES of accounts, one after the other, read back at the end; see `limits`."""
        return set_limits(self._client, wanted, name)

    def limit_command(self, name: str, account: str, gpus: Mapping[str, int]) -> str:
        """The same by sacctmgr."""
        return limit_command(name, account, gpus)

    def logs(self, fence: str) -> str:
        """Slurm's REST API shows no files (capability `logs` is off)."""
        raise BackendRejectedError(f"no logs of {fence} over REST", code="not_supported")

    def _update_nodes(self, nodes: Sequence[str], body: Json) -> None:
        dialect = self._client.dialect
        if not dialect.can_drain:
            words = f"{dialect.api} cannot change nodes; scontrol can"
            raise BackendRejectedError(words, code="not_supported")
        for node in nodes:
            path = f"node/{quote(node, safe='')}"
            self._client.write("POST", path, self._client.connection.account, body, fine=())

    def _read_jobs(self) -> list[bytes]:
        return self._client.read("jobs").texts("jobs")

    def _find(self, fence: str, account: str) -> tuple[JobRow, ...]:
        """Our jobs of this name and user in the controller, lowest id first."""
        word = fence.encode()  # letters, digits and hyphens: spelt alike in every JSON text
        found = (parsed(text) for text in self._jobs.get() if word in text)
        named = (controller_job(raw) for raw in found if raw.get("name") == fence)
        return self._ours(named, fence, account)

    def _ours(self, rows: Iterable[JobRow], fence: str, account: str) -> tuple[JobRow, ...]:
        mine = (row for row in rows if row.user == account and self._is_ours(row, fence))
        return tuple(sorted(mine, key=lambda row: row.job_id))

    def _ran_before(self, fence: str, account: str) -> JobRow | None:
        """The attempt in accounting, if it ended so long ago that the controller forgot it.

        Asked only when the controller has nothing. Here a missing comment is no excuse: running a
        gang twice is worse than leaving it to be looked into, so name and user decide.
        """
        if self._options.get("accounting") == "off":
            return None
        path = f"jobs?job_name={quote(fence, safe='')}&skip_steps=true"
        if self._client.dialect.wraps_numbers:
            path += "&show_duplicates=true&disable_truncate_usage_time=true"
        reply = self._client.read(path, accounting=True, fine=(errors.NOTHING_FOUND,))
        rows = [accounting_job(raw) for raw in reply.rows("jobs") if raw.get("name") == fence]
        mine = [
            row
            for row in rows
            if row.user == account and (not row.comment or self._is_ours(row, fence))
        ]
        return min(mine, key=lambda row: (row.started_ms is None, row.job_id), default=None)

    def _is_ours(self, row: JobRow, fence: str) -> bool:
        return is_ours(self._mark, fence, row.comment or "", fence.__eq__)

    def _post(self, gang: Gang) -> int:
        """Submit held. Without EnforcePartLimits Slurm accepts what it will never start (2015)."""
        body = submit_body(gang, self._client.dialect, self._options, self._client.connection.name)
        reply = self._client.write("POST", "job/submit", gang.account, body, fine=(errors.HELD,))
        job_id = number(reply.part("job_id")) or 0
        bad = next((fault for fault in reply.faults if fault.number != errors.HELD), None)
        if bad is not None:
            self._delete(job_id, gang.account)
            raise BackendRejectedError(bad.words, code=str(bad.number))
        return job_id

    def _settle(self, found: tuple[JobRow, ...], gang: Gang) -> Submitted:
        """Release the one that may run, cancel what is held beside it.

        The lowest id counts even when it is over: if it was cancelled before it ran, the attempt
        was, and a late duplicate must not bring it back.
        """
        winner = next((row for row in found if _has_begun(row)), found[0])
        others = [row for row in found if row is not winner and not row.state.is_final]
        if winner.state is GangState.HELD:
            release = {"hold": False}
            self._client.write("POST", f"job/{winner.job_id}", gang.account, release, fine=())
        for row in others:
            self._delete(row.job_id, gang.account)
        return Submitted(str(winner.job_id), len(others))

    def _delete(self, job_id: int, account: str) -> None:
        self._client.write("DELETE", f"job/{job_id}", account, fine=_IS_OVER)


def _has_begun(row: JobRow) -> bool:
    """Released before: it waits in earnest, runs, or has run."""
    return row.state is GangState.PENDING or row.state.holds_nodes or row.started_ms is not None
