"""A Volcano Job to a job of ours, or everything that is wrong with it at once."""

from dataclasses import dataclass
from typing import Any, Final

from federation.core.spec import PRIORITIES
from federation.core.spec.kinds import token
from federation.intake.findings import Findings
from federation.intake.job import ForeignJob, in_order, made_of
from federation.intake.place import Place
from federation.intake.vcjob.document import read_document
from federation.intake.vcjob.flavors import choose_flavors
from federation.intake.vcjob.gang import Gang, check_hosts, fill_gang, read_gang
from federation.intake.vcjob.own import take_off_own
from federation.intake.vcjob.plugins import read_plugins, set_variables
from federation.intake.vcjob.policies import read_policies, read_topology
from federation.intake.vcjob.walk import Spot, check_fields
from kit.errors import FieldProblem

API, KIND = "batch.volcano.sh/v1alpha1", "Job"
_SCHEDULERS: Final = ("", "volcano")
_DEFAULT_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it was read. `job` None: it is no Volcano Job, or none that can be read on."""

    job: Spot | None
    findings: Findings


def read_vcjob(text: str) -> Document:
    """The document of a file, held against the table. Never raises, whatever the text."""
    findings = Findings()
    node = read_document(text, findings)
    if node is None:
        return Document(None, findings)
    job = Spot("", node.line, node)
    if not _is_vcjob(job, findings):
        return Document(None, findings)
    take_off_own(job, findings)
    return Document(job if check_fields(job, findings) else None, findings)


def vcjob_of(document: Document, place: Place) -> ForeignJob | tuple[FieldProblem, ...]:
    """The job of a document, or every problem, in order of the lines; at most 100."""
    findings, job = document.findings.copy(), document.job
    if isinstance(place.tenant, FieldProblem):
        findings.problems.append(place.tenant)
    if job is None:
        return in_order(findings)
    body: dict[str, Any] = {"gang": {}}
    _title(job, body, findings)
    if isinstance(place.tenant, str):
        body["tenant"] = place.tenant
    plugins = read_plugins(job, findings)
    gang = read_gang(job, findings)
    tasks = list(job.items("spec", "tasks"))
    if gang is None:
        del body["gang"]
    else:
        fill_gang(gang, body, findings)
        _run(gang, plugins, body, findings)
        check_hosts(job, gang, findings)
        if flavors := choose_flavors(gang.pod, place, findings):
            body["flavors"] = flavors
    _rules(job, tasks, body, findings)
    read_topology(job, tasks, body, findings)
    return made_of(body, findings)


def _is_vcjob(job: Spot, findings: Findings) -> bool:
    """Whether the file is a Volcano Job at all."""
    if not isinstance(job.node.value, dict):
        findings.refuse(job.line, "wrong_type", "", "A job is fields and values.")
        return False
    given = (job.text_of("apiVersion"), job.text_of("kind"))
    for name, wanted, found in zip(("apiVersion", "kind"), (API, KIND), given, strict=True):
        if found != wanted:
            detail = f"Only Volcano Jobs are taken: {API}, kind {KIND}; not {found[:100]!r}."
            findings.refuse(job.line_of(name), f"unknown_{_code(name)}", name, detail)
            return False
    return True


def _code(name: str) -> str:
    return "api_version" if name == "apiVersion" else "kind"


def _title(job: Spot, body: dict[str, Any], findings: Findings) -> None:
    """Name, labels and order."""
    name = job.get("metadata", "name")
    generated = job.get("metadata", "generateName")
    if at := name or generated:
        body["name"] = at.text if name else at.text.removesuffix("-")
        findings.origins["/name"] = at.line
    labels = job.get("metadata", "labels")
    for key, one in labels.fields() if labels else ():
        body.setdefault("labels", {})[key] = one.text
        findings.origins[f"/labels/{token(key)}"] = one.line
    order = job.get("spec", "priorityClassName")
    if order is None:
        return
    word = order.text.removesuffix("-priority")
    if word in PRIORITIES:
        body["priority"], findings.origins["/priority"] = word, order.line
    else:
        detail = (
            "Priority classes are each cluster's own. Order is Muster's: priority, by the words "
            f"{', '.join(PRIORITIES)}."
        )
        findings.drop(order.line, order.path, detail)


def _rules(job: Spot, tasks: list[Spot], body: dict[str, Any], findings: Findings) -> None:
    """Who schedules it, how often it starts again, and what happens when."""
    scratch = body if "gang" in body else {"gang": {}}
    spec = job.get("spec")
    if spec is None:
        return
    for at in (spec, *(pod for task in tasks if (pod := task.get("template", "spec")))):
        scheduler = at.get("schedulerName")
        if scheduler and scheduler.text not in _SCHEDULERS:
            detail = "Gangs are scheduled by Volcano. Take it out."
            findings.refuse(scheduler.line, "refused", scheduler.path, detail)
    if retries := spec.get("maxRetry"):
        scratch["gang"]["max_restarts"] = (retries.count or _DEFAULT_RUNS) - 1
        findings.origins["/gang/max_restarts"] = retries.line
    for one in (spec, *tasks):
        read_policies(one, len(tasks), scratch, findings)


def _run(gang: Gang, plugins: frozenset[str], body: dict[str, Any], findings: Findings) -> None:
    """What is run, for how long, with which variables; and where each stands."""
    pod, origins = gang.pod, findings.origins
    run, variables = set_variables(pod, gang.names, gang.sizes, plugins, findings)
    body["run"] = {**pod.run, **run}
    if environment := {**pod.environment, **variables}:
        body["environment"] = environment
    origins["/run"] = origins["/environment"] = pod.lines[""]
    for name, line in pod.lines.items():
        kind, _, rest = name.partition("/")
        if kind == "environment":
            origins[f"/environment/{token(rest)}"] = line
        elif kind == "rdma" and rest:
            origins[f"/run/rdma/{token(rest)}"] = line
        elif name:
            origins[f"/run/{name}"] = line
    origins["/time_limit"] = pod.lines["limit"]
    if pod.limit_s:
        body["time_limit"] = pod.limit_s
    else:
        path = f"{pod.at.path}.activeDeadlineSeconds"
        detail = (
            "It has no time limit, and every job needs one. Add a line such as "
            "activeDeadlineSeconds: 86400 to the pod's spec."
        )
        findings.refuse(pod.at.line, "no_time_limit", path, detail)
