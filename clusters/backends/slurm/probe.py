"""What a cluster can do for us, looked at once: each gap with its fix."""

from collections.abc import Iterator

from clusters.backends.slurm import read
from clusters.backends.slurm.client import SlurmClient
from clusters.backends.slurm.limits import right_to_write
from clusters.backends.slurm.observe import cluster_clock_s, topology_of
from clusters.backends.slurm.topology import Topology
from clusters.backends.slurm.values import Json
from clusters.core.backend import (
    BackendError,
    BackendUnavailableError,
    Finding,
    ProbeReport,
)
from clusters.core.observation import NodeSeen, QueueSeen, clock_skew_ms

MAX_SKEW_MS = 5_000
_FIXES = {
    "unreachable": "start slurmrestd and allow this host to reach it",
    "auth": "give the cluster's own jwt_hs256.key and an account that exists on the controller",
    "api_version": "load a known openapi plugin (slurmrestd -s), or correct the endpoint",
    "controller": "start slurmctld",
    "options": "correct the option",
}


def probe(client: SlurmClient, now_ms: int) -> ProbeReport:
    """Versions, rights, clock, capabilities. A cluster that cannot be reached is a finding, too."""
    try:
        dialect = client.dialect
        meta = client.read("diag").part("meta") or {}
        skew = clock_skew_ms(cluster_clock_s(client) * 1000, now_ms)
        nodes = client.read("nodes").rows("nodes")
        partitions = client.read("partitions").rows("partitions")
        topology = topology_of(client)
    except BackendError as error:
        fix = _FIXES.get(error.code, "see slurmrestd's log")
        return ProbeReport("", "", 0, (Finding("reachable", False, error.words, fix),))
    seen = [read.node(raw, topology) for raw in nodes]
    findings = (
        Finding("reachable", True, f"{len(nodes)} nodes answered for"),
        _live(dialect.api, is_run_live=dialect.is_run_live),
        *_accounting(client),
        _queues([read.queue(raw) for raw in partitions]),
        _devices(seen),
        _topology(seen, topology),
        _clock(skew),
        *_fixed(can_drain=dialect.can_drain),
    )
    return ProbeReport(_release(meta), dialect.api, skew, findings)


def _release(meta: Json) -> str:
    told = meta.get("slurm") or meta.get("Slurm") or {}
    return str(told.get("release", ""))


def _live(api: str, *, is_run_live: bool) -> Finding:
    detail = f"{api} has been run live" if is_run_live else f"{api} is not yet run live"
    return Finding(
        "api_run_live", is_run_live, detail, "" if is_run_live else "try it on a test job"
    )


def _accounting(client: SlurmClient) -> Iterator[Finding]:
    account = client.connection.account
    try:
        rows = client.read("associations", accounting=True).rows("associations")
    except BackendError as error:
        fix = "start slurmdbd, and slurmrestd with its dbv plugin"
        is_silent = isinstance(error, BackendUnavailableError)
        yield Finding("accounting", False, error.words, fix, is_silent=is_silent)
        return
    users = {str(row["user"]) for row in rows if row.get("user")}
    yield Finding("accounting", True, f"{len(rows)} associations, {len(users)} users")
    is_known = account in users
    yield Finding(
        "account",
        is_known,
        f"{account} {'has' if is_known else 'has no'} association",
        "" if is_known else f"only needed if jobs run as {account}: sacctmgr add user {account}",
    )
    yield _limits(client)


def _limits(client: SlurmClient) -> Finding:
    """Whether quotas can be mirrored to Slurm's accounts; nothing else depends on it."""
    try:
        obstacle = right_to_write(client)
    except BackendError as error:
        is_silent = isinstance(error, BackendUnavailableError)
        return Finding("limits", False, error.words, "see slurmrestd's log", is_silent=is_silent)
    if obstacle is None:
        return Finding("limits", True, "quotas can be mirrored to Slurm's accounts")
    return Finding("limits", False, obstacle.words, obstacle.fix)


def _queues(queues: list[QueueSeen]) -> Finding:
    open_ones = [queue.name for queue in queues if queue.is_open]
    detail = f"open: {', '.join(open_ones) or 'none'} of {len(queues)}"
    fix = "" if open_ones else "scontrol update partitionname=... state=up"
    return Finding("queues", bool(open_ones), detail, fix)


def _devices(nodes: list[NodeSeen]) -> Finding:
    found = sorted({node.device or "untyped" for node in nodes if node.gpus})
    bare = [node.name for node in nodes if not node.gpus]
    detail = f"GPU types: {', '.join(found) or 'none'}; nodes without GPUs: {len(bare)}"
    fix = "" if found else "declare Gres=gpu:<type>:<n> on the nodes"
    return Finding("devices", bool(found), detail, fix)


def _topology(nodes: list[NodeSeen], topology: Topology) -> Finding:
    lacking = [node.name for node in nodes if len(node.path) < len(topology.tiers)]
    detail = (
        f"tiers {', '.join(topology.tiers)}: known for {len(nodes) - len(lacking)} of {len(nodes)}"
    )
    if not lacking:
        return Finding("topology", True, detail)
    fix = "name the domains in node features (options tiers, tier.*) or give topology_conf"
    return Finding("topology", False, f"{detail}; not {', '.join(lacking[:3])} ...", fix)


def _clock(skew_ms: int) -> Finding:
    is_close = abs(skew_ms) <= MAX_SKEW_MS
    fix = "" if is_close else "run an NTP client on the controller and here"
    return Finding("clock", is_close, f"the controller is {skew_ms} ms ahead (whole seconds)", fix)


def _fixed(*, can_drain: bool) -> Iterator[Finding]:
    """Flags that follow from the API version, and what REST cannot tell."""
    drain_fix = "" if can_drain else "use scontrol, or Slurm 23.02 and later"
    yield Finding("drain", can_drain, "nodes can be drained over REST from v0.0.39 on", drain_fix)
    yield Finding("signal", True, "reaches the steps, and on 22.05 the batch shell")
    words = "Slurm changes the QOS of pending jobs only (2073 once it runs)"
    yield Finding("reclassify", False, words, "none: a job ends in the class it was bound in")
    yield Finding("logs", False, "REST shows no files", "mount the users' directories, read there")
    words = "unknown (REST does not show it): EnforcePartLimits=ALL refuses what could never start"
    yield Finding("part_limits", True, words)
