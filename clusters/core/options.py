"""The options an admin may set for a cluster, by backend: strings, each with its form.

The reference page `docs/reference/cluster-options.md` is made from this table.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from clusters.core.devices import FORM, is_device
from clusters.core.domains import TIERS
from clusters.core.queueing import is_queue
from kit.errors import FieldProblem

MAPPED_TIERS = TIERS[1:-1]  # every node is a host and every cluster a cluster anyway


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what its value must look like, and what it is for.

    Attributes:
        is_form: whether a value has the right form.
        form: that form in words.
        meaning: what it does, and what holds without it.
    """

    is_form: Callable[[str], bool]
    form: str
    meaning: str


def _matching(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None


def _is_expression(value: str) -> bool:
    try:
        re.compile(value)
    except re.error:
        return False
    return bool(value)


def _is_tiers(value: str) -> bool:
    tiers = [tier.strip() for tier in value.split(",")]
    return set(tiers) <= set(MAPPED_TIERS) and len(set(tiers)) == len(tiers)


_WORD = _matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_PATH = re.compile(r"[a-z0-9-]{1,63}(/[a-z0-9-]{1,63})*")
_SECONDS = _matching(r"[1-9][0-9]{0,4}")
_DEVICE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TAINTS = _matching(r"[^\s,]{1,316}(\s*,\s*[^\s,]{1,316})*")

_ENVIRONMENT = Option(
    lambda value: "\0" not in value,
    "text",
    "environment.NAME sets the variable NAME in every job; `{account}` is the account or namespace. "
    "A user's own value wins.",
)
_MARK = Option(
    _matching("[a-z0-9-]{1,32}"),
    "1 to 32 of a-z, 0-9 and -",
    "What marks jobs as this Muster's own, where two share a cluster. Else muster.",
)
_CONNECT = Option(_SECONDS, "seconds", "Longest wait for a connection. Else 3.")
_TIMEOUT = Option(_SECONDS, "seconds", "Deadline of one call. Else 20.")

# A name that ends in "." stands for every name that begins with it.
OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "slurm": {
        "accounting": Option(
            _matching("on|off"),
            "on or off",
            "off: the cluster has no slurmdbd; what is gone from the controller is lost. Else on.",
        ),
        "accounting_comments": Option(
            _matching("yes|no"),
            "yes or no",
            "no: the cluster does not store job comments (AccountingStoreFlags=job_comment), so "
            "that jobs in accounting are ours by their name alone. Else yes.",
        ),
        "accounting_days": Option(
            _matching("[1-9][0-9]{0,3}"),
            "days, 1 to 9999",
            "How far back accounting is searched for the end of an attempt. Else 60.",
        ),
        "api_version": Option(
            _matching(r"v0\.0\.[0-9]{2}"),
            "v0.0.NN",
            "Pins the version of the REST API. Else the newest that both sides know.",
        ),
        "charge": Option(
            _WORD,
            "a Slurm account",
            "The Slurm account that jobs are charged to there. Else each person's default.",
        ),
        "charge.": Option(
            _WORD,
            "a Slurm account",
            "charge.TENANT (a path, such as charge.acme/vision) names the account for jobs of that "
            "tenant and of those below it without one of their own. Else what charge says.",
        ),
        "cluster_name": Option(
            _WORD,
            "a name",
            "What Slurm calls this cluster (ClusterName), where its accounting serves several. "
            "Else its name here.",
        ),
        "connect_timeout_s": _CONNECT,
        "environment.": _ENVIRONMENT,
        "mark": _MARK,
        "qos.": Option(
            _WORD,
            "a QOS",
            "qos.guaranteed and qos.spot name the QOS of each class. Else the cluster's default.",
        ),
        "tier.": Option(
            _is_expression,
            "a regular expression",
            "tier.leaf, tier.spine, tier.domain: which feature of a node names its domain of that "
            "tier. Else features like leaf000 and spine0.",
        ),
        "tiers": Option(
            _is_tiers,
            "tiers, widest first, comma-separated",
            "The tiers that the cluster knows. Else those of tier.*, else spine,leaf.",
        ),
        "timeout_s": _TIMEOUT,
        "token_life_s": Option(_SECONDS, "seconds", "How long a minted token is valid. Else 1800."),
        "topology_conf": Option(
            lambda value: "\0" not in value,
            "text",
            "The cluster's topology.conf, when its node features do not say the topology.",
        ),
        "workdir": Option(
            _matching(r"/[^\x00-\x1f]*"),
            "an absolute path",
            "Where a job without a working directory runs; `{account}` is filled in. "
            "Else /home/{account}.",
        ),
    },
    "volcano": {
        "authority": Option(
            _matching(r"-----BEGIN CERTIFICATE-----[^\0]*-----END CERTIFICATE-----\s*"),
            "certificates in PEM",
            "Who signed the API server's certificate. Else the authorities that this host trusts.",
        ),
        "connect_timeout_s": _CONNECT,
        "device.": Option(
            is_device,
            FORM,
            "device.NAME makes NAME the GPU type of the nodes that give this resource and bear these "
            "labels; jobs ask for the resource and select the labels. Where several fit, the one "
            "with the most labels counts. Else a node's type is its resource, with its model.",
        ),
        "environment.": _ENVIRONMENT,
        "mark": _MARK,
        "namespaces": Option(
            _matching(r"[a-z0-9]([a-z0-9-]{0,62})(\s*,\s*[a-z0-9]([a-z0-9-]{0,62}))*"),
            "names, comma-separated",
            "The namespaces in which jobs may run: those that accounts name. Only they are read "
            "and written.",
        ),
        "qos.": Option(
            _matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"),
            "a PriorityClass",
            "qos.guaranteed and qos.spot name the priority class of each class. Else none.",
        ),
        "queue.": Option(
            is_queue,
            "a queue's name (a-z, 0-9 and inner -), perhaps with {flavor} and {class}",
            "queue.TENANT (a path, such as queue.acme/vision) names the queue for jobs of that "
            "tenant and of those below it without one of their own, such as "
            "`vision-{flavor}-{class}`. With `{class}` a running job keeps its class. "
            "Else the flavor's queue.",
        ),
        "tier.": Option(
            _matching("[0-9]{1,4}"),
            "a tier's number",
            "tier.leaf, tier.spine, tier.domain: the tier of HyperNodes that is the federation's. "
            "Else their tierName, else by how many tiers there are.",
        ),
        "relist_s": Option(
            _SECONDS,
            "seconds",
            "How long the cluster is followed by what changed, until everything is listed anew. "
            "Else 600.",
        ),
        "timeout_s": _TIMEOUT,
        "tolerate": Option(
            _TAINTS,
            "keys of taints, comma-separated",
            "Taints that jobs tolerate: nodes that bear them take jobs. Else none.",
        ),
        "tolerate.": Option(
            _TAINTS,
            "keys of taints, comma-separated",
            "tolerate.NAME: what jobs on the device NAME tolerate besides. Else nothing more.",
        ),
    },
}


def option_problems(pointer: str, options: object, backend: str) -> Iterator[FieldProblem]:
    """Everything wrong with the options of a cluster of this backend."""
    known = OPTIONS.get(backend, {})
    if not isinstance(options, Mapping):
        yield FieldProblem(pointer, "invalid_type", "Give an object of strings by name.")
        return
    for name, value in options.items():
        here = f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
        option = _find(known, str(name))
        if option is None:
            names = ", ".join(f"{item}*" if item.endswith(".") else item for item in known)
            yield FieldProblem(here, "unknown_option", f"No such option. Known: {names}.")
        elif not isinstance(value, str) or not option.is_form(value):
            yield FieldProblem(here, "invalid_option", f"Give a string: {option.form}.")
        elif name.startswith("tolerate.") and f"device.{name[9:]}" not in options:
            words = f"No device is named so. Set device.{name[9:]}, too."
            yield FieldProblem(here, "invalid_option", words)


def _find(known: Mapping[str, Option], name: str) -> Option | None:
    head, dot, rest = name.partition(".")
    if head + dot == "tier." and rest not in MAPPED_TIERS:
        return None
    if head + dot in ("charge.", "queue.") and not _PATH.fullmatch(rest):
        return None
    if head + dot in ("device.", "tolerate.") and not _DEVICE.fullmatch(rest):
        return None
    return known.get(head + dot) if rest or not dot else None
