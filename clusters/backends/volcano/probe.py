"""What a Volcano cluster can do for us, looked at once: each gap with its fix.

Rights are asked of the server itself, one by one (SelfSubjectAccessReview), which any account may.
"""

from collections.abc import Iterator, Sequence

from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.errors import FORBIDDEN
from clusters.backends.volcano.rights import Right
from clusters.core.backend import BackendError, Finding, ProbeReport
from clusters.core.observation import NodeSeen, Observation, clock_skew_ms

MAX_SKEW_MS = 5_000
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_BATCH, _BUS = "batch.volcano.sh", "bus.volcano.sh"
_SCHEDULING, _TOPOLOGY = "scheduling.volcano.sh", "topology.volcano.sh"
# What has to be defined there, in the version that we speak.
DEFINED = (
    (_BATCH, "v1alpha1"), (_BUS, "v1alpha1"), (_SCHEDULING, "v1beta1"), (_TOPOLOGY, "v1alpha1"),
)  # fmt: skip
_FIXES = {
    "unreachable": "correct the address, or allow this host to reach it",
    "unauthorized": "give a token that is valid (kubectl create token muster -n muster)",
    "credentials": "give a token, a kubeconfig, or a certificate with its key, as the words ask for",
    FORBIDDEN: "kubectl apply -f deploy/member/volcano/cluster.yaml",
}


# What nothing goes without, in the order of deploy/member/volcano/.
NEEDED = (
    *(Right(_BATCH, "jobs", verb) for verb in ("create", "get", "list", "watch", "patch", "delete")),
    Right(_BUS, "commands", "create"),
    *(Right(_SCHEDULING, "podgroups", verb) for verb in ("list", "watch")),
    *(
        Right(group, kind, verb, in_namespace=False)
        for group, kind in (
            ("", "nodes"), ("", "pods"), (_SCHEDULING, "queues"), (_TOPOLOGY, "hypernodes"),
        )
        for verb in ("list", "watch")
    ),
)  # fmt: skip
# What one capability needs, and how it is given.
_MORE = (
    ("logs", Right("", "pods/log", "get"), "kubectl apply -n NAMESPACE -f deploy/member/volcano/tenant-logs.yaml"),
    ("drain", Right("", "nodes", "patch", in_namespace=False), "allow the account to patch nodes, or cordon by hand"),
    ("signal", Right("", "pods", "patch"), "kubectl apply -n NAMESPACE -f deploy/member/volcano/tenant.yaml"),
    ("force_delete", Right("", "pods", "delete"), "kubectl apply -n NAMESPACE -f deploy/member/volcano/tenant.yaml"),
    ("limits", Right(_SCHEDULING, "queues", "patch", in_namespace=False), "kubectl apply -f deploy/member/volcano/queues.yaml"),
)  # fmt: skip


def unreached(error: BackendError) -> ProbeReport:
    """The report of a cluster that could not be read."""
    fix = _FIXES.get(error.code, "see the API server's log")
    return ProbeReport("", "", 0, (Finding("reachable", False, error.words, fix),))


def probe(
    client: KubernetesClient, seen: Observation, namespaces: Sequence[str], now_ms: int
) -> ProbeReport:
    """Versions, rights, clock, capabilities; `seen` was read just before.

    Raises:
        BackendError: it cannot be asked any more.
    """
    version = client.get("/version")
    skew = 0 if client.date_ms is None else clock_skew_ms(client.date_ms, now_ms)
    findings = (
        Finding("reachable", True, f"{len(seen.nodes)} nodes answered for"),
        _definitions(client),
        _namespaces(namespaces),
        *_rights(client, namespaces),
        Finding("accounting", True, "GPU time is told by the pods themselves"),
        _queues(seen),
        *_classes(client),
        _devices(seen.nodes),
        _topology(seen.nodes),
        _clock(skew),
        Finding(
            "reclassify", True, "a job may get another priority class; running pods keep theirs"
        ),
    )
    return ProbeReport(str(version.get("gitVersion", "")), f"{_BATCH}/v1alpha1", skew, findings)


def _definitions(client: KubernetesClient) -> Finding:
    """Whether Volcano's kinds are there, in the versions that we speak."""
    lacking = []
    for group, version in DEFINED:
        try:
            told = client.get(f"/apis/{group}").get("versions") or []
        except BackendError:
            told = []
        if version not in {one.get("version") for one in told}:
            lacking.append(f"{group}/{version}")
    detail = f"not defined: {', '.join(lacking)}" if lacking else "Volcano's kinds are defined"
    return Finding(
        "definitions", not lacking, detail, "install Volcano 1.10 or newer" if lacking else ""
    )


def _namespaces(namespaces: Sequence[str]) -> Finding:
    if namespaces:
        return Finding("namespaces", True, f"jobs live in {', '.join(namespaces)}")
    return Finding("namespaces", False, "no namespace is named", "set the option namespaces")


def _rights(client: KubernetesClient, namespaces: Sequence[str]) -> Iterator[Finding]:
    lacking = [words for right in NEEDED for words in _lacks(client, right, namespaces)]
    fix = "kubectl apply -f deploy/member/volcano/cluster.yaml, and tenant.yaml in each namespace"
    detail = f"it may not {', '.join(lacking)}" if lacking else "it may do all that it has to"
    yield Finding("rights", not lacking, detail, fix if lacking else "")
    for capability, right, how in _MORE:
        missing = list(_lacks(client, right, namespaces))
        told = (
            f"it may not {', '.join(missing)}"
            if missing
            else f"it may {right.verb} {right.resource}"
        )
        yield Finding(capability, not missing, told, how if missing else "")


def _lacks(client: KubernetesClient, right: Right, namespaces: Sequence[str]) -> Iterator[str]:
    """Where the right is missing, in words."""
    for space in namespaces if right.in_namespace else ("",):
        if not client.may(right, space):
            where = f" in {space}" if space else ""
            yield f"{right.verb} {right.resource}{where}"


def _queues(seen: Observation) -> Finding:
    open_ones = [queue.name for queue in seen.queues if queue.is_open]
    detail = f"open: {', '.join(open_ones) or 'none'} of {len(seen.queues)}"
    return Finding(
        "queues", bool(open_ones), detail, "" if open_ones else "make a queue, or open one"
    )


def _classes(client: KubernetesClient) -> Iterator[Finding]:
    """Whether the priority classes that the options name are there: Volcano itself never looks."""
    options = client.connection.options
    named = {value for key, value in options.items() if key.startswith("qos.")}
    if not named:
        return
    try:
        there = {one["metadata"]["name"] for one in client.items(CLASSES)}
    except BackendError as error:
        yield Finding("classes", False, error.words, _FIXES[FORBIDDEN], is_silent=True)
        return
    lacking = ", ".join(sorted(named - there))
    told = f"no such priority class: {lacking}" if lacking else "the priority classes are there"
    fix = "make them, or name others in the options qos.*" if lacking else ""
    yield Finding("classes", not lacking, told, fix)


def _devices(nodes: Sequence[NodeSeen]) -> Finding:
    found = sorted({node.device for node in nodes if node.gpus})
    bare = sum(not node.gpus for node in nodes)
    detail = f"GPUs: {', '.join(found) or 'none'}; nodes without GPUs: {bare}"
    return Finding("devices", bool(found), detail, "" if found else "install the device plugin")


def _topology(nodes: Sequence[NodeSeen]) -> Finding:
    """HyperNodes count members that are not there, so the nodes are counted."""
    lacking = sorted(node.name for node in nodes if node.gpus and not node.path)
    if not lacking:
        return Finding("topology", True, "every node with GPUs is in a HyperNode")
    fix = "put them into HyperNodes, or let Volcano discover them"
    return Finding("topology", False, f"in no HyperNode: {', '.join(lacking[:3])} ...", fix)


def _clock(skew_ms: int) -> Finding:
    is_close = abs(skew_ms) <= MAX_SKEW_MS
    fix = "" if is_close else "run an NTP client on the control plane and here"
    return Finding("clock", is_close, f"the API server is {skew_ms} ms ahead (whole seconds)", fix)
