"""What must be true after the demo's jobs have ended; each that is not, in plain words.

Pure functions over the API's documents: times, tiers and money are worked out here once more, from
other fields than those that Muster itself worked with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from federation.management.demo_jobs import HOLD, DemoJob

TIERS = ("host", "domain", "leaf", "spine", "cluster")
HOUR_MS = 3_600_000
NANO = 1_000_000_000
FINAL = frozenset({"succeeded", "failed", "cancelled"})

Paths = Mapping[str, Mapping[str, str]]  # node -> tier -> domain, of one cluster
Prices = Mapping[tuple[str, str], Decimal]  # (flavor, class) -> per GPU-hour


@dataclass
class Outcome:
    """What was seen of one job: its documents at the end and every state on the way."""

    ask: DemoJob
    job: dict[str, Any]
    costs: dict[str, Any] = field(default_factory=dict)
    states: set[str] = field(default_factory=set)

    @property
    def attempt(self) -> Mapping[str, Any]:
        """The last attempt; empty when it never had one."""
        return self.job.get("attempt") or {}

    @property
    def intervals(self) -> Sequence[Mapping[str, Any]]:
        """When it held GPUs."""
        found: Sequence[Mapping[str, Any]] = self.costs.get("intervals", ())
        return found


def nano(money: Mapping[str, str]) -> int:
    """An amount of the API in nano-units."""
    return int(Decimal(money["amount"]) * NANO)


def milliseconds(text: str) -> int:
    """An API time in milliseconds since the epoch."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def shared_tier(nodes: Sequence[str], paths: Paths) -> str:
    """The closest tier at which all the nodes sit in one domain."""
    if len(set(nodes)) == 1:
        return "host"
    for tier in TIERS[1:-1]:
        domains = {paths.get(node, {}).get(tier) for node in nodes}
        if len(domains) == 1 and None not in domains:
            return tier
    return "cluster"


def job_faults(outcome: Outcome, paths: Mapping[str, Paths], prices: Prices) -> Iterator[str]:
    """What is not true of one job, apart from the others."""
    ask, job = outcome.ask, outcome.job
    if job["state"] != ask.ends:
        words = job.get("outcome") or "; ".join(r["message"] for r in job.get("reasons", ()))
        yield f"is {job['state']}, not {ask.ends} ({words or 'no reason given'})"
        return
    if ask.act == HOLD and "held" not in outcome.states:
        yield "was never seen held"
    if ask.ends == "failed" and outcome.attempt.get("exit_code") != ask.exit_code:
        yield f"ended with exit code {outcome.attempt.get('exit_code')}, not {ask.exit_code}"
    if outcome.attempt.get("state") not in (None, "ended"):
        yield f"is over, but its attempt is {outcome.attempt['state']}"
    yield from place_faults(outcome, paths)
    yield from cost_faults(outcome, prices)


def place_faults(outcome: Outcome, paths: Mapping[str, Paths]) -> Iterator[str]:
    """A gang is whole, on the nodes it was given, no farther apart than promised or required."""
    ask, attempt = outcome.ask, outcome.attempt
    seen = attempt.get("nodes_seen") or ()
    if sorted(seen) != sorted(attempt.get("nodes", ())):
        yield f"was bound to {attempt.get('nodes')} and ran on {list(seen)}"
        return
    if len(set(seen)) != ask.nodes:
        yield f"ran on {len(set(seen))} nodes, not {ask.nodes}"
        return
    tier = shared_tier(seen, paths.get(attempt["cluster"], {}))
    for name, limit in (
        ("promised", attempt["tier_promised"]),
        ("required", ask.topology.get("required", "cluster")),
    ):
        if TIERS.index(tier) > TIERS.index(limit):
            yield f"ran across one {tier}, though {name} was one {limit}"
    if attempt["tier_seen"] != tier:
        yield f"says that it ran within one {attempt['tier_seen']}; its nodes share one {tier}"


def cost_faults(outcome: Outcome, prices: Prices) -> Iterator[str]:
    """Usage is GPUs x time of each interval, and cost is usage x price, to a nano-unit each."""
    total_ms = total = 0
    for part in outcome.intervals:
        if part["end"] is None:
            yield "is over, but still held GPUs by the book"
            return
        lasted = milliseconds(part["end"]) - milliseconds(part["start"])
        if part["gpu_ms"] != lasted * outcome.ask.gpus:
            yield f"held {outcome.ask.gpus} GPUs for {lasted} ms, and {part['gpu_ms']} were booked"
        price = prices[part["flavor"], part["class"]]
        due = part["gpu_ms"] * price * NANO / HOUR_MS
        if abs(nano(part["amount"]) - due) > 1:
            yield f"cost {part['amount']['amount']}; {price} an hour makes {due / NANO:.9f}"
        total_ms += part["gpu_ms"]
        total += nano(part["amount"])
    if not outcome.intervals:
        yield "ran, and nothing was booked"
    if (total_ms, total) != (outcome.costs["gpu_ms"], nano(outcome.costs["so_far"])):
        yield "has a total that is not the sum of its parts"
    if nano(outcome.costs["unposted"]):
        yield f"has {outcome.costs['unposted']['amount']} that never reached the ledger"


def together_faults(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Two gangs that exceed their cluster together never held GPUs at the same time."""
    for name, outcome in outcomes.items():
        other = outcomes.get(outcome.ask.alone_with)
        if other is None or name > other.ask.name:
            continue
        for mine in outcome.intervals:
            for theirs in other.intervals:
                if mine["start"] < theirs["end"] and theirs["start"] < mine["end"]:
                    yield f"{name} and {other.ask.name} held GPUs at the same time"


def sum_faults(outcomes: Mapping[str, Outcome], grown: int, *, is_alone: bool) -> Iterator[str]:
    """The organisation's usage grew by what the jobs cost (nano-units); more, if others ran too."""
    cost = sum(nano(outcome.costs["so_far"]) for outcome in outcomes.values())
    if grown != cost and (is_alone or grown < cost):
        yield f"the jobs cost {cost / NANO:.9f}, and usage grew by {grown / NANO:.9f}"
