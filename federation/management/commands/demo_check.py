"""`manage.py demo_check --url URL --state DIR`: submits the demo's jobs and holds Muster to its word.

It knows Muster by its REST API only. Exit code 0 when everything came true, 1 when something did
not; each thing that did not is said in plain words.
"""

import json
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError

from federation.management import demo_truths as truths
from federation.management.demo_client import Client, RefusedError
from federation.management.demo_jobs import CANCEL, HOLD, JOBS, RUN_LABEL, DemoJob
from federation.management.demo_truths import Outcome
from federation.management.demo_world import ADMIN, CLUSTERS, CURRENCY, ORGANISATION
from kit.ids import new_id

POLL_S = 0.7
HELD_POLLS = 3  # a held job is left held for so many polls before it is released
SETTLE_S = 20
ROW = "{:<14} {:<10} {:<9} {:>5} {:<8} {:>7} {:>10} {:>12}"


class Command(BaseCommand):
    """Submits, follows, tells, checks."""

    help = "Submits the demo's jobs over REST, follows them to their ends, checks what came true."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where Muster is, and where the demo keeps its logins."""
        parser.add_argument("--url", required=True, help="address of Muster")
        parser.add_argument("--state", type=Path, default=Path(".muster"), help="the demo's files")
        parser.add_argument("--timeout", type=float, default=90.0, help="seconds for all jobs")

    def handle(self, *, url: str, state: Path, timeout: float, **_: object) -> None:
        """Runs the check.

        Raises:
            CommandError: Muster cannot be asked, or something is not true (exit code 1).
        """
        try:
            run = DemoRun(url, read_logins(state), say=self.stdout.write)
            faults = run.check(timeout)
        except (RefusedError, httpx.HTTPError) as error:
            raise CommandError(f"Muster at {url}: {error}") from error
        if faults:
            words = "\n".join(f"  - {fault}" for fault in faults)
            raise CommandError(f"{len(faults)} things are not as they should be:\n{words}")
        self.stdout.write(f"All {len(JOBS)} jobs ended as they should, and the books agree.")


def read_logins(state: Path) -> Mapping[str, Mapping[str, str]]:
    """Everybody's password and token, from the demo's files.

    Raises:
        CommandError: the demo was not seeded there.
    """
    path = state / "people.json"
    try:
        logins: Mapping[str, Mapping[str, str]] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read ({error}). Run seed_demo first.") from error
    return logins


class DemoRun:
    """One check: its jobs are told from those of others by a label."""

    def __init__(
        self, url: str, logins: Mapping[str, Mapping[str, str]], *, say: Callable[[str], object]
    ) -> None:
        self._url = url
        self._say = say
        self._run = str(new_id())
        self._clients = {name: Client(url, login["token"]) for name, login in logins.items()}
        self._admin = self._clients[ADMIN.username]
        self._outcomes: dict[str, Outcome] = {}
        self._held_for = 0
        self._told = ""

    def check(self, timeout_s: float) -> list[str]:
        """Everything that is not true; empty is success.

        Raises:
            CommandError: Muster is not ready.
            RefusedError: Muster refused a call that it must not refuse.
        """
        try:
            self._await_ready()
            is_alone = not self._others()
            before = self._usage()
            self._submit()
            faults = list(self._follow(timeout_s))
            self._settle()
            self._say(self._table())
            return [*faults, *self._faults(self._usage() - before, is_alone=is_alone)]
        finally:
            for client in self._clients.values():
                client.close()

    def _await_ready(self) -> None:
        """Refuses a service that is not ready; gives a fresh one time to see its clusters."""
        try:
            response = httpx.get(f"{self._url.rstrip('/')}/readyz", timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            raise CommandError(f"Nothing answers at {self._url} ({error}).") from error
        if response.status_code != httpx.codes.OK:
            raise CommandError(f"Muster at {self._url} is not ready: {response.text.strip()}")
        wanted = {cluster.name for cluster in CLUSTERS}
        if not _until(lambda: wanted <= self._seen_clusters(), SETTLE_S):
            missing = ", ".join(sorted(wanted - self._seen_clusters()))
            raise CommandError(f"Muster does not see these clusters: {missing}.")

    def _seen_clusters(self) -> set[str]:
        rows = self._admin.items("/clusters")
        return {row["name"] for row in rows if row["is_reachable"] and row["last_seen_at"]}

    def _others(self) -> list[dict[str, Any]]:
        """Jobs in the queue that this check did not submit."""
        mine = {outcome.job["id"] for outcome in self._outcomes.values()}
        return [row for row in self._admin.items("/queue") if row["id"] not in mine]

    def _usage(self) -> int:
        return truths.nano(self._admin.get(f"/tenants/{ORGANISATION}/usage")["amount"])

    def _submit(self) -> None:
        for ask in JOBS:
            client = self._clients[ask.person]
            job, _ = client.post("/jobs", ask.body(self._run), key=f"{self._run}-{ask.name}")
            self._outcomes[ask.name] = Outcome(ask, job, states={job["state"]})
            if ask.act == HOLD:
                client.post(f"/jobs/{job['id']}/hold")
        self._say(f"{len(JOBS)} jobs submitted by {len({ask.person for ask in JOBS})} people")

    def _follow(self, timeout_s: float) -> Iterator[str]:
        """Polls until all have ended; a fault for each that has not in time."""
        if _until(self._is_over, timeout_s):
            return
        for name, outcome in self._outcomes.items():
            if outcome.job["state"] not in truths.FINAL:
                yield f"{name} did not end within {timeout_s:.0f} s"

    def _is_over(self) -> bool:
        by_id = {outcome.job["id"]: outcome for outcome in self._outcomes.values()}
        for job in self._admin.items("/jobs", label=f"{RUN_LABEL}={self._run}"):
            outcome = by_id[job["id"]]
            outcome.job = job
            outcome.states.add(job["state"])
            self._act(outcome)
        counts = Counter(outcome.job["state"] for outcome in self._outcomes.values())
        progress = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
        if progress != self._told:
            self._say(progress)
            self._told = progress
        return set(counts) <= truths.FINAL

    def _act(self, outcome: Outcome) -> None:
        """Cancels what runs and is to be cancelled; releases what was held for a while."""
        ask, job = outcome.ask, outcome.job
        client = self._clients[ask.person]
        if ask.act == CANCEL and job["state"] == "running" and not job["cancel_asked_at"]:
            client.post(f"/jobs/{job['id']}/cancel")
        if ask.act == HOLD and job["state"] == "held":
            self._held_for += 1
            if self._held_for == HELD_POLLS:
                client.post(f"/jobs/{job['id']}/release")

    def _settle(self) -> None:
        """Waits for the ledger, then reads the jobs and their costs once more."""

        def is_posted() -> bool:
            for outcome in self._outcomes.values():
                path = f"/jobs/{outcome.job['id']}"
                outcome.costs = self._admin.get(f"{path}/costs")
                outcome.job = self._admin.get(path)
            return all(
                not truths.nano(outcome.costs["unposted"]) for outcome in self._outcomes.values()
            )

        _until(is_posted, SETTLE_S)

    def _faults(self, grown: int, *, is_alone: bool) -> Iterator[str]:
        paths, prices = self._paths(), self._prices()
        for name, outcome in self._outcomes.items():
            for fault in truths.job_faults(outcome, paths, prices):
                yield f"{name} {fault}"
        yield from truths.together_faults(self._outcomes)
        yield from truths.sum_faults(self._outcomes, grown, is_alone=is_alone)
        yield from self._access_faults(JOBS[0])
        left = {row["id"] for row in self._admin.items("/queue")}
        for name, outcome in self._outcomes.items():
            if outcome.job["id"] in left:
                yield f"{name} is over and still in the queue"

    def _paths(self) -> dict[str, truths.Paths]:
        return {
            cluster.name: {
                node["name"]: {step["tier"]: step["domain"] for step in node["path"]}
                for node in self._admin.items(f"/clusters/{cluster.name}/nodes")
            }
            for cluster in CLUSTERS
        }

    def _prices(self) -> dict[tuple[str, str], Decimal]:
        """The newest general price of each flavor and class (newest first in the list)."""
        found: dict[tuple[str, str], Decimal] = {}
        for row in self._admin.items("/prices"):
            if not row["cluster"] and not row["tenant"]:
                price = Decimal(row["per_gpu_hour"]["amount"])
                found.setdefault((row["flavor"], row["class"]), price)
        return found

    def _access_faults(self, ask: DemoJob) -> Iterator[str]:
        """Another team does not see the job; the same key gives the same job again."""
        job = self._outcomes[ask.name].job
        stranger = next(other.person for other in JOBS if other.person != ask.person)
        status = self._clients[stranger].status(f"/jobs/{job['id']}")
        if status != httpx.codes.NOT_FOUND:
            yield f"{stranger} asked for {ask.name} of another team and got {status}, not 404"
        again, is_replay = self._clients[ask.person].post(
            "/jobs", ask.body(self._run), key=f"{self._run}-{ask.name}"
        )
        if again["id"] != job["id"] or not is_replay:
            yield f"{ask.name} was submitted twice under one Idempotency-Key"

    def _table(self) -> str:
        header = (
            "job",
            "state",
            "cluster",
            "nodes",
            "tier",
            "wait",
            "GPU-hours",
            f"cost {CURRENCY}",
        )
        rows = [ROW.format(*header)]
        for name, outcome in self._outcomes.items():
            job, attempt, costs = outcome.job, outcome.attempt, outcome.costs
            rows.append(
                ROW.format(
                    name,
                    job["state"],
                    attempt.get("cluster") or "-",
                    len(attempt.get("nodes") or ()),
                    attempt.get("tier_seen") or "-",
                    _wait(job),
                    costs["gpu_hours"],
                    costs["so_far"]["amount"],
                )
            )
        return "\n".join(rows)


def _wait(job: Mapping[str, Any]) -> str:
    """From submit to the first start, in seconds."""
    if not job["started_at"]:
        return "-"
    waited = truths.milliseconds(job["started_at"]) - truths.milliseconds(job["submitted_at"])
    return f"{waited / 1000:.1f} s"


def _until(is_true: Callable[[], bool], seconds: float) -> bool:
    """Asks until it is true or the time is over; whether it came true."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True
