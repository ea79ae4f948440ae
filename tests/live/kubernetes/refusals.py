"""What a running Volcano accepted and refused: copies of its recordings, and who refused.

A refusal by a validating webhook comes after the definition's schema: what one refused had passed
the schema. Refusals by a mutating webhook come before it and are not here.
"""

from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One object of the recordings and the answer of a cluster with Volcano in it.

    `by` is who refused it (None: it was accepted); "rule" is a rule across fields of a schema.
    """

    name: str
    kind: str
    body: Json
    code: int = 201
    by: Literal["schema", "rule", "server", "webhook"] | None = None
    words: str = ""

    @property
    def code_without_webhooks(self) -> int:
        return 201 if self.by == "webhook" else self.code


VERSIONS = {
    "Job": "batch.volcano.sh/v1alpha1",
    "Command": "bus.volcano.sh/v1alpha1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
}


def whole(kind: str, spec: Json, **metadata: Any) -> Json:
    """An object as it is sent; its name is made by the server unless one is given."""
    named = metadata if "name" in metadata else {"generateName": "case-", **metadata}
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": named, "spec": spec}


def template(**pod: Any) -> Json:
    """A pod template of one container."""
    resources = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}
    container = {"name": "train", "image": "train:1", "resources": resources}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}


def task(**fields: Any) -> Json:
    """A task of two pods."""
    return {"name": "w", "replicas": 2, "template": template(), **fields}


def without(field: str, whole_task: Json) -> Json:
    return {key: value for key, value in whole_task.items() if key != field}


def job(tasks: list[Json] | None = None, **fields: Any) -> Json:
    """A job of one task, with these fields of its spec."""
    return {"minAvailable": 2, "queue": "default", "tasks": tasks or [task()], **fields}


def accepted(name: str, kind: str, spec: Json, /, **metadata: Any) -> Case:
    return Case(name, kind, whole(kind, spec, **metadata))


def denied(name: str, kind: str, spec: Json) -> Case:
    """Refused by a validating webhook of Volcano's, and so not by the schema."""
    return Case(name, kind, whole(kind, spec), 400, "webhook")


def invalid(name: str, kind: str, spec: Json, words: str) -> Case:
    """Refused by the schema."""
    return Case(name, kind, whole(kind, spec), 422, "schema", words)


def policy(**fields: Any) -> Json:
    return job(policies=[fields])


def partitions(replicas: int = 4, **fields: Any) -> Json:
    chosen = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, **fields}
    return job([task(replicas=replicas, partitionPolicy=chosen)])


def container(**fields: Any) -> Json:
    """A job whose container has these fields beside its name."""
    return job([task(template=template(containers=[{"name": "train", **fields}]))])


JOBS = (
    invalid(
        "no tasks",
        "Job", {"minAvailable": 2, "tasks": []}, "spec.tasks in body should have at least 1 items",
    ),
    denied("tasks missing", "Job", {"minAvailable": 2}),
    denied("minAvailable above the sum of replicas", "Job", job(minAvailable=9)),
    accepted("minAvailable 0", "Job", job(minAvailable=0)),
    denied("task minAvailable above its replicas", "Job", job([task(minAvailable=3)])),
    accepted("replicas 0", "Job", job([task(replicas=0)], minAvailable=0)),
    invalid(
        "replicas -1", "Job", job([task(replicas=-1)], minAvailable=0),
        "spec.tasks[0].replicas: Invalid value: -1: spec.tasks[0].replicas in body should be gre",
    ),
    denied("two tasks of one name", "Job", job([task(), task()])),
    invalid(
        "task name with capitals", "Job", job([task(name="Worker")]),
        "spec.tasks[0].name in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
    ),
    accepted("task without a name", "Job", job([without("name", task())])),
    denied("queue missing", "Job", job(queue="nope")),
    denied("queue root", "Job", job(queue="root")),
    accepted("priority class missing", "Job", job(priorityClassName="nope")),
    denied("plugin unknown", "Job", job(plugins={"nope": []})),
    accepted("plugin argument unknown", "Job", job(plugins={"svc": ["--nope=1"]})),
    accepted(
        "pytorch plugin naming a master task that is not there",
        "Job", job(plugins={"pytorch": ["--master=m"]}),
    ),
    denied("mpi plugin, master task missing", "Job", job(plugins={"mpi": ["--master=m"]})),
    denied("policy with no event and no exitCode", "Job", policy(action="AbortJob")),
    denied(
        "policy with event and exitCode",
        "Job", policy(event="PodFailed", exitCode=3, action="AbortJob"),
    ),
    denied("policy exitCode 0", "Job", policy(exitCode=0, action="AbortJob")),
    denied("policy event PodRunning", "Job", policy(event="PodRunning", action="AbortJob")),
    denied("policy action unknown", "Job", policy(event="PodFailed", action="Nope")),
    denied(
        "policy event twice",
        "Job", job(policies=[{"event": "PodFailed", "action": "AbortJob"}] * 2),
    ),
    denied("policy * and another", "Job", policy(events=["*", "PodFailed"], action="AbortJob")),
    accepted(
        "policy PodPending without a timeout",
        "Job", policy(event="PodPending", action="AbortJob"),
    ),
    denied(
        "networkTopology tier and tier name", "Job",
        job(networkTopology={"mode": "hard", "highestTierAllowed": 1, "highestTierName": "leaf"}),
    ),
    invalid(
        "networkTopology mode unknown", "Job", job(networkTopology={"mode": "firm", "highestTierAllowed": 1}),
        'spec.networkTopology.mode: Unsupported value: "firm": supported values: "hard", "soft"',
    ),
    accepted("networkTopology hard without a tier", "Job", job(networkTopology={"mode": "hard"})),
    accepted(
        "networkTopology soft with a tier",
        "Job", job(networkTopology={"mode": "soft", "highestTierAllowed": 1}),
    ),
    denied("partitionPolicy 2 x 2 with replicas 2", "Job", partitions(replicas=2)),
    accepted(
        "partitionPolicy minPartitions 1, minAvailable not given (defaults to replicas)",
        "Job", partitions(),
    ),
    invalid(
        "partitionPolicy totalPartitions 0", "Job", partitions(totalPartitions=0),
        "spec.tasks[0].partitionPolicy.totalPartitions in body should be greater than or equal to 1",
    ),
    denied("dependsOn a task that is not there", "Job", job([task(dependsOn={"name": ["nope"]})])),
    accepted("maxRetry 0 (what is kept?)", "Job", job(maxRetry=0)),
    accepted("schedulerName default-scheduler", "Job", job(schedulerName="default-scheduler")),
    invalid(
        "minSuccess 0",
        "Job", job(minSuccess=0), "spec.minSuccess: Invalid value: 0: spec.minS",
    ),
    denied(
        "volume with claim name and claim", "Job",
        job(volumes=[{"mountPath": "/data", "volumeClaimName": "data", "volumeClaim": {"accessModes": []}}]),
    ),
    denied("volume with neither", "Job", job(volumes=[{"mountPath": "/data"}])),
    denied(
        "restartPolicy Sometimes",
        "Job", job([task(template=template(restartPolicy="Sometimes"))]),
    ),
    denied("no containers", "Job", job([task(template=template(containers=[]))])),
    denied("container without image", "Job", container()),
    denied(
        "GPU 0.5",
        "Job", container(image="train:1", resources={"limits": {"nvidia.com/gpu": "0.5"}}),
    ),
    accepted("unknown field in spec", "Job", job(nope=1)),
    accepted("job name with a dot", "Job", job(), name="a.b"),
    accepted(
        "job name starting with a digit (with svc)",
        "Job", job(plugins={"svc": []}), name="1a",
    ),
)  # fmt: skip

BY_THE_SERVER = (
    Case(
        "label value of 64",
        "Job", whole("Job", job(), labels={"a": "x" * 64}), 422, "server", "must be no more than 63",
    ),
    Case(
        "annotation of 300 kB", "Job", whole("Job", job(), annotations={"a": "x" * 300_000}), 422, "server",
        "may not be more than 262144 bytes",
    ),
    Case(
        "job name with capitals",
        "Job", whole("Job", job(), name="Bad"), 422, "server", "a lowercase RFC 1123 subdomain",
    ),
    Case(
        "neither name nor generateName", "Job", {**whole("Job", job()), "metadata": {}}, 422, "server",
        "name or generateName is required",
    ),
    Case(
        "wrong namespace in the body", "Job", whole("Job", job(), namespace="elsewhere"), 400, "server",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    Case(
        "apiVersion v1beta1", "Job", {**whole("Job", job()), "apiVersion": "batch.volcano.sh/v1beta1"}, 400, "server",
        "does not match the expected API version (batch.volcano.sh/v1alpha1)",
    ),
)  # fmt: skip

GPUS = {"nvidia.com/gpu": "8"}
QUEUES = (
    accepted("queue without weight", "Queue", {}),
    invalid(
        "queue: weight 0",
        "Queue", {"weight": 0}, "spec.weight in body should be greater than or equal to 1",
    ),
    denied(
        "queue deserved above capability",
        "Queue", {"deserved": {"nvidia.com/gpu": "64"}, "capability": GPUS},
    ),
    denied("queue guarantee without deserved", "Queue", {"guarantee": {"resource": GPUS}}),
    denied("queue parent missing", "Queue", {"parent": "nope"}),
    accepted("queue parent is default", "Queue", {"parent": "default"}),
    denied("queue capability negative", "Queue", {"capability": {"nvidia.com/gpu": "-1"}}),
    invalid(
        "queue dequeueStrategy unknown", "Queue", {"dequeueStrategy": "lifo"},
        'spec.dequeueStrategy: Unsupported value: "lifo": supported values: "fifo", "traverse"',
    ),
)  # fmt: skip


def members(*selectors: Json, kind: str = "Node") -> Json:
    return {"tier": 1, "members": [{"type": kind, "selector": one} for one in selectors]}


EXACT, PATTERN = {"exactMatch": {"name": "n0"}}, {"regexMatch": {"pattern": "^n"}}
LABELS = {"labelMatch": {"matchLabels": {"a": "b"}}}
HYPERNODES = (
    denied("hypernode without members", "HyperNode", {"tier": 1}),
    invalid("hypernode tier missing", "HyperNode", {"members": []}, "spec.tier: Required value"),
    Case(
        "hypernode two selectors", "HyperNode", whole("HyperNode", members({**EXACT, **PATTERN})), 422, "rule",
        "spec.members[0].selector: Invalid value: Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
    ),
    denied("hypernode bad regex", "HyperNode", members({"regexMatch": {"pattern": "("}})),
    accepted(
        "hypernode labelMatch on HyperNode members",
        "HyperNode", members(LABELS, kind="HyperNode"),
    ),
)  # fmt: skip

PODGROUPS = (
    denied("podgroup queue missing", "PodGroup", {"minMember": 2, "queue": "nope"}),
    accepted("podgroup without queue", "PodGroup", {"minMember": 2}),
    accepted(
        "podgroup priority class missing",
        "PodGroup", {"minMember": 2, "priorityClassName": "nope"},
    ),
)  # fmt: skip


def command(**fields: Any) -> Json:
    target = {"apiVersion": VERSIONS["Job"], "kind": "Job", "name": "nope", "uid": "0"}
    chosen = {"action": "AbortJob", "target": target, **fields}
    return {**without("spec", whole("Command", {})), **chosen}


COMMANDS = (
    Case("job does not exist", "Command", command()),
    Case("no target", "Command", without("target", command())),
    Case("unknown action", "Command", command(action="Nope")),
    Case("empty action", "Command", command(action="")),
    Case(
        "controller false",
        "Command", command(target={**command()["target"], "controller": False}),
    ),
    Case("kind Pod", "Command", command(target={**command()["target"], "kind": "Pod"})),
    Case(
        "target without uid", "Command", command(target=without("uid", command()["target"])), 422, "schema",
        "target.uid: Required value",
    ),
)  # fmt: skip

CASES = (*JOBS, *BY_THE_SERVER, *QUEUES, *HYPERNODES, *PODGROUPS, *COMMANDS)
