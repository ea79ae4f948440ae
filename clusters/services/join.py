"""A cluster joins: everything is checked, it is looked at, and only then it is a member."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from clusters.backends import connect
from clusters.core.backend import BackendError, Connection, Finding, ProbeReport
from clusters.core.capabilities import REACHABLE, flavor_gaps, gaps
from clusters.core.joining import Joining, read_joining
from clusters.core.queueing import queue_gaps
from clusters.models import Cluster, Flavor
from clusters.services.configure import (
    cluster_problems,
    create_cluster,
    set_account,
    set_cluster_flavor,
)
from clusters.services.probe import keep_report, report_document
from kit.errors import ConflictError, FieldProblem, InvalidContentError, MusterError
from kit.intervals import to_ms
from tenancy.models import User


class NotReadyError(MusterError):
    """The probe found what keeps the cluster from joining; each finding says its fix.

    With `"force": true` it joins all the same, and jobs stay away from it as far as they need what
    is missing.
    """

    code, status, title = "cluster_not_ready", 409, "The cluster is not ready to join"


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen of a cluster before it joined; `wrong` keeps it from joining."""

    report: ProbeReport
    wrong: tuple[FieldProblem, ...]


def parse_joining(body: Mapping[str, Any]) -> Joining:
    """The checked body.

    Raises:
        InvalidContentError: names every field that is wrong.
    """
    joining, found = read_joining(body)
    told = {problem.pointer for problem in found}
    more = cluster_problems(joining.name, joining.configured, joining.secret)
    problems = [*found, *(problem for problem in more if problem.pointer not in told)]
    problems += _unknown_rows(joining)
    if problems:
        raise InvalidContentError("The cluster's description is not valid.", errors=problems)
    return joining


def _unknown_rows(joining: Joining) -> Iterator[FieldProblem]:
    flavors = {row["flavor"] for row in joining.flavors}
    known = set(Flavor.objects.filter(name__in=flavors).values_list("name", flat=True))
    for index, row in enumerate(joining.flavors):
        if row["flavor"] not in known:
            words = "No such GPU model in the catalogue. Add it: POST /api/v1/flavors."
            yield FieldProblem(f"/flavors/{index}/flavor", "unknown_flavor", words)
    people = _people(joining)
    for index, row in enumerate(joining.accounts):
        if row["user"] not in people:
            yield FieldProblem(
                f"/accounts/{index}/user", "unknown_user", "There is no such person."
            )


def _people(joining: Joining) -> dict[str, User]:
    names = {row["user"] for row in joining.accounts}
    return {user.username: user for user in User.objects.filter(username__in=names)}


def look(*, joining: Joining, now: datetime) -> Looked:
    """Probes the cluster that the body describes and compares its flavors with what is there.

    Nothing is stored and no transaction is open. What does not answer is a finding, too.
    """
    configured = joining.configured
    connection = Connection(
        name=joining.name,
        endpoint=configured["endpoint"],
        secret=joining.secret,
        account=configured["account"],
        options=dict(configured["options"]),
    )
    with closing(connect(configured["backend"], connection)) as backend:
        report = _probe(backend.probe, now)
        essential = gaps(report.findings, connection.options)
        wrong = [
            FieldProblem("", finding.capability, f"{finding.detail}. Fix: {finding.fix}.")
            for finding in essential
        ]
        if report.capabilities.get(REACHABLE):
            try:
                seen = backend.observe(to_ms(now), ())
                wrong += flavor_gaps(joining.flavors, seen)
                flavors = [row["flavor"] for row in joining.flavors]
                wrong += queue_gaps(connection.options, flavors, seen)
            except BackendError as error:
                wrong.append(FieldProblem("", REACHABLE, f"It cannot be read: {error.words}."))
    return Looked(report, tuple(wrong))


def _probe(probe: Any, now: datetime) -> ProbeReport:
    try:
        report: ProbeReport = probe(to_ms(now))
    except BackendError as error:
        finding = Finding(REACHABLE, False, error.words, "see the words of the cluster")
        return ProbeReport("", "", 0, (finding,))
    return report


def probe_document(looked: Looked, now: datetime) -> dict[str, object]:
    """What `POST /clusters/probe` answers: the report, and whether the cluster could join."""
    return {
        **report_document(looked.report, now),
        "is_ready": not looked.wrong,
        "wrong": [
            {"pointer": problem.pointer, "code": problem.code, "detail": problem.detail}
            for problem in looked.wrong
        ],
    }


def refuse_taken(name: str) -> None:
    """Raises ConflictError when a member has that name, before anybody is called."""
    if Cluster.objects.filter(name=name).exists():
        raise ConflictError(f"There is a cluster {name} already.", pointer="/name")


@transaction.atomic
def join_cluster(*, actor: User | None, joining: Joining, looked: Looked, now: datetime) -> Cluster:
    """Makes the cluster a member with its flavors, accounts and what the probe found; all or none.

    Raises:
        NotReadyError: the probe found what is essential missing, and `force` is not set.
        ConflictError: a member has that name.
    """
    if looked.wrong and not joining.force:
        raise NotReadyError(
            f"{joining.name} is not ready to join: {len(looked.wrong)} "
            f"{'finding' if len(looked.wrong) == 1 else 'findings'}. Nothing was changed.",
            errors=looked.wrong,
        )
    cluster = create_cluster(
        actor=actor, name=joining.name, secret=joining.secret, **joining.configured, now=now
    )
    flavors = Flavor.objects.in_bulk([row["flavor"] for row in joining.flavors])
    for row in joining.flavors:
        set_cluster_flavor(
            actor=actor,
            cluster=cluster,
            flavor=flavors[row["flavor"]],
            device=row["device"],
            queue=row["queue"],
            now=now,
        )
    people = _people(joining)
    for row in joining.accounts:
        set_account(
            actor=actor,
            cluster=cluster,
            user=people[row["user"]],
            account=row["account"],
            home=row["home"],
            run_as=row["run_as"],
            now=now,
        )
    keep_report(actor=actor, cluster=cluster, report=looked.report, now=now)
    return cluster
