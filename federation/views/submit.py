"""The form that submits a job: the main fields; the API takes everything else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from clusters.selectors.catalogue import flavor_names
from federation.core.spec import CLASSES, PRIORITIES, TIERS, JobSpec, parse_spec
from federation.services.submit import submit_jobs
from kit.errors import FieldProblem, MusterError
from tenancy.models import Role
from tenancy.selectors.access import visible_tenants
from tenancy.views import person, signed_in

# Which field of the form a JSON pointer into the body speaks of; the longest match counts.
POINTERS = {
    "/tenant": "tenant",
    "/name": "name",
    "/class": "class",
    "/priority": "priority",
    "/flavors": "flavors",
    "/gang/nodes": "nodes",
    "/gang/gpus_per_node": "gpus_per_node",
    "/topology": "tier",
    "/time_limit": "time_limit",
    "/run/workdir": "workdir",
    "/run": "script",
}
SCRIPT = "#!/bin/bash\nsrun nvidia-smi\n"


@dataclass(frozen=True, slots=True)
class Filled:
    """What was typed, and what is wrong with it by field; "" holds what fits no field."""

    values: Mapping[str, Any]
    wrong: Mapping[str, list[str]]


@signed_in
def new_job(request: HttpRequest) -> HttpResponse:
    """`/jobs/new`: GET shows the form, POST submits and goes to the job's page."""
    user = person(request)
    filled = Filled({"nodes": 1, "gpus_per_node": 8, "time_limit": "1h", "script": SCRIPT}, {})
    if request.method == "POST":
        spec = parse_spec(body_of(request.POST))
        problems: Sequence[FieldProblem]
        if isinstance(spec, JobSpec):
            try:
                taken = submit_jobs(user=user, specs=[spec], now=timezone.now())
            except MusterError as error:
                problems = error.errors or (FieldProblem("", error.code, error.detail),)
            else:
                messages.success(request, "The job is submitted.")
                return redirect("job", job_id=taken.jobs[0].uuid)
        else:
            problems = spec
        values = {**request.POST.dict(), "flavors": request.POST.getlist("flavors")}
        filled = Filled(values, by_field(problems))
    context = {
        "it": filled,
        "tenants": visible_tenants(user, Role.SUBMITTER).filter(is_open=True),
        "flavors": flavor_names(),
        "classes": CLASSES,
        "priorities": PRIORITIES,
        "tiers": TIERS,
    }
    return render(request, "new_job.html", context, status=422 if filled.wrong else 200)


def body_of(form: QueryDict) -> dict[str, Any]:
    """The form as a job's body. Empty fields are left out, so that their defaults hold."""
    run = {"script": form.get("script", "").replace("\r\n", "\n"), "workdir": form.get("workdir")}
    body: dict[str, Any] = {
        "tenant": form.get("tenant"),
        "name": form.get("name"),
        "class": form.get("class"),
        "priority": form.get("priority"),
        "flavors": form.getlist("flavors"),
        "gang": {name: _number(form.get(name)) for name in ("nodes", "gpus_per_node")},
        "time_limit": form.get("time_limit"),
        "run": {name: value for name, value in run.items() if value},
    }
    if tier := form.get("tier"):
        body["topology"] = {"required": tier}
    return {name: value for name, value in body.items() if value}


def by_field(problems: Sequence[FieldProblem]) -> dict[str, list[str]]:
    """What is wrong, by field of the form."""
    wrong: dict[str, list[str]] = {}
    for problem in problems:
        matches = [pointer for pointer in POINTERS if problem.pointer.startswith(pointer)]
        field = POINTERS[max(matches, key=len)] if matches else ""
        wrong.setdefault(field, []).append(problem.detail)
    return wrong


def _number(text: str | None) -> int | str | None:
    """A whole number where it is one; anything else goes to the parser as it is, to be refused."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else text
