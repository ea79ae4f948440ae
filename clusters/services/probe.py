"""Looks at a member cluster: versions, rights, clock; keeps what was found."""

from contextlib import closing
from datetime import datetime

from django.db import transaction
from django.db.models import F

from clusters.backends import connect
from clusters.core.backend import BackendError, Connection, ProbeReport
from clusters.core.capabilities import REACHABLE
from clusters.models import Cluster
from clusters.selectors.connection import connection_of
from kit.errors import MusterError
from kit.intervals import iso, to_ms
from tenancy.models import User
from tenancy.services.records import ring, write_audit

REPORT_VERSION = 1


class ProbeFailedError(MusterError):
    """The cluster did not answer, or refused; the detail holds its own words."""

    code, status, title = "probe_failed", 502, "The cluster could not be probed"


def report_document(report: ProbeReport, now: datetime) -> dict[str, object]:
    """The report as it is stored and shown."""
    return {
        "v": REPORT_VERSION,
        "at": iso(now),
        "version": report.version,
        "api": report.api,
        "clock_skew_ms": report.clock_skew_ms,
        "findings": [
            {
                "capability": finding.capability,
                "is_on": finding.is_on,
                "detail": finding.detail,
                "fix": finding.fix,
            }
            for finding in report.findings
        ],
    }


def probe_cluster(*, actor: User | None, cluster: Cluster, now: datetime) -> dict[str, object]:
    """Asks the cluster, then stores the report and the capability flags; returns the report.

    No transaction is open while the cluster is asked. A cluster that does not answer keeps the
    flags and the clock it had: silence changes nothing.

    Raises:
        ProbeFailedError: the cluster did not answer, or refused.
    """
    report = ask(cluster.backend, connection_of(cluster), now)
    silent = silence(report)
    if silent:
        Cluster.objects.filter(pk=cluster.pk).update(probe=report_document(report, now))
        raise ProbeFailedError(f"{cluster.name} does not answer: {silent}")
    return keep_report(actor=actor, cluster=cluster, report=report, now=now)


def ask(backend: str, connection: Connection, now: datetime) -> ProbeReport:
    """One look at a cluster; nothing is stored.

    Raises:
        ProbeFailedError: the cluster refused.
    """
    try:
        with closing(connect(backend, connection)) as cluster:
            return cluster.probe(to_ms(now))
    except BackendError as error:
        raise ProbeFailedError(f"{connection.name} does not answer: {error.words}") from error


def silence(report: ProbeReport) -> str:
    """Why a cluster could not be looked at, and the fix; "" when it could."""
    for finding in report.findings:
        if finding.capability == REACHABLE and not finding.is_on:
            return f"{finding.detail}. Fix: {finding.fix}."
    return ""


@transaction.atomic
def keep_report(
    *, actor: User | None, cluster: Cluster, report: ProbeReport, now: datetime
) -> dict[str, object]:
    """Stores what a probe found, and says that it was looked at; the report as it is shown.

    A report of silence is kept without its flags: they would say that nothing works. So is what
    one part of the cluster, such as its accounting, did not answer for.
    """
    document = report_document(report, now)
    if silence(report):
        Cluster.objects.filter(pk=cluster.pk).update(probe=document)
        return document
    known = Cluster.objects.select_for_update().values_list("capabilities", flat=True)
    Cluster.objects.filter(pk=cluster.pk).update(
        probe=document,
        capabilities={**known.get(pk=cluster.pk), **report.capabilities},
        clock_skew_ms=report.clock_skew_ms,
        revision=F("revision") + 1,
    )
    write_audit(
        actor=actor,
        action="probe",
        object_type="cluster",
        object_id=cluster.name,
        after={"version": report.version, "capabilities": report.capabilities},
        now=now,
    )
    ring()
    return document
