"""What a cluster must be able to do: which gaps keep it from joining, which keep jobs away.

The flags come from the last probe (`clusters.core.backend.ProbeReport`). A flag that was never
looked at says nothing: only what was found off counts.
"""

from collections.abc import Iterator, Mapping, Sequence

from clusters.core.backend import Finding
from clusters.core.observation import Observation
from kit.errors import FieldProblem

REACHABLE, ACCOUNTING, DEVICES, QUEUES = "reachable", "accounting", "devices", "queues"
CLOCK, SIGNAL = "clock", "signal"
SCRIPT, IMAGE = "script", "image"

# In which form each backend starts a job.
FORMS: Mapping[str, str] = {"slurm": SCRIPT, "volcano": IMAGE}

# Without these nothing can be placed there, billed or ended in time.
ESSENTIAL = (REACHABLE, ACCOUNTING, DEVICES, QUEUES, CLOCK)

# What any gang needs of a cluster, and what only some need: their words, when it is off.
GANG_NEEDS = (ACCOUNTING, DEVICES)
LACK_WORDS: Mapping[str, str] = {
    ACCOUNTING: "has no accounting that answers, so what ran there could not be billed",
    DEVICES: "has no node with GPUs of a type, which a gang asks for by name",
    SIGNAL: "cannot pass a checkpoint signal to a job",
    SCRIPT: "runs batch scripts, and the job has none",
    IMAGE: "runs containers, and the job names no image",
}
LACK_FIXES: Mapping[str, str] = {
    ACCOUNTING: "Ask an admin to start slurmdbd there (or to set its option accounting to off), "
    "and to probe the cluster again.",
    DEVICES: "Ask an admin to declare typed GPUs there (Gres=gpu:<type>:<n>), and to probe it again.",
    SIGNAL: "Submit it without a checkpoint signal, or let it go to another cluster.",
    SCRIPT: "Give the job a run.script, too, or let it go to another cluster.",
    IMAGE: "Give the job a run.image with its run.command, too, or let it go to another cluster.",
}


def lacks(capabilities: Mapping[str, object], options: Mapping[str, str]) -> frozenset[str]:
    """What the last probe found off, of all that jobs may need.

    Accounting that the admin says is not there (option `accounting`) is no gap: the admin chose it.
    """
    off = {name for name in LACK_WORDS if capabilities.get(name) is False}
    if options.get("accounting") == "off":
        off.discard(ACCOUNTING)
    return frozenset(off)


def gaps(findings: Sequence[Finding], options: Mapping[str, str]) -> list[Finding]:
    """The findings that keep a cluster from joining."""
    chosen = {ACCOUNTING} if options.get("accounting") == "off" else set()
    return [
        finding
        for finding in findings
        if not finding.is_on
        and finding.capability in ESSENTIAL
        and finding.capability not in chosen
    ]


def flavor_gaps(flavors: Sequence[Mapping[str, str]], seen: Observation) -> Iterator[FieldProblem]:
    """Flavors whose device or member queue is not on the cluster; each with what is there."""
    queues = sorted(queue.name for queue in seen.queues)
    for index, named in enumerate(flavors):
        reached = [
            node for node in seen.nodes if not named["queue"] or named["queue"] in node.queues
        ]
        if named["queue"] and named["queue"] not in queues:
            there = ", ".join(queues) or "none"
            yield FieldProblem(
                f"/flavors/{index}/queue",
                "not_on_cluster",
                f"No such queue there. It has: {there}.",
            )
        elif named["device"] not in {node.device for node in reached}:
            devices = sorted({node.device for node in reached if node.device})
            there = ", ".join(devices) or "none"
            yield FieldProblem(
                f"/flavors/{index}/device",
                "not_on_cluster",
                f"No node that the queue reaches has this GPU type. It has: {there}.",
            )
