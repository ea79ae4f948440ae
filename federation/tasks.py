"""Celery edges of forwarding and simulating: each task is a nudge to do what the rows say is due.

Calls to a cluster may hang until their deadline. They are made in threads of their own, and a task
waits for them a moment only: however many clusters hang, the others are served.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import UUID

from celery import shared_task
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from clusters.selectors.traffic import clusters_to_deliver, clusters_to_observe
from clusters.services.deliver import deliver
from clusters.services.observe import observe as read_cluster
from clusters.services.recall import is_held
from federation.selectors.attempts import fences_to_look_up
from federation.selectors.simulations import is_simulation_due
from federation.services.reconcile import reconcile_cluster
from federation.services.retention import prune_jobs, prune_orders, prune_simulations
from kit.aside import Aside, Spaced
from kit.child import Child

LONGEST_ROUND = timedelta(seconds=20)
EXPIRES_S = 10
TIME_LIMIT_S = 120  # HTTP deadlines lie well inside
PATIENCE_S = 2.0
_ROUNDS = Aside(16, PATIENCE_S)
_READINGS = Aside(16, PATIENCE_S)
# Ticks that waited behind a long queue of nudges come all at once; one of them is enough.
_DELIVERY_TICKS = Spaced(0.5)
_READING_TICKS = Spaced(0.5)
# Minutes of arithmetic: in a process of its own that yields to all others, so that neither the
# worker's interpreter nor its threads are taken from what it is there for.
_SIMULATING = Child([sys.executable, "manage.py", "run_simulations"], settings.BASE_DIR)


def _holder() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{threading.get_ident()}"


@shared_task(acks_late=True, ignore_result=True, time_limit=TIME_LIMIT_S)
def dispatch(cluster_id: str, **_: object) -> None:
    """Delivers the outbox of one cluster, then settles what was answered."""
    _ROUNDS.run(cluster_id, partial(_with_connection, _deliver, UUID(cluster_id)))


def _deliver(cluster_id: UUID) -> None:
    environment = settings.ENVIRONMENT
    made = deliver(
        cluster_id=cluster_id,
        holder=_holder(),
        life=timedelta(milliseconds=environment.lease_ms),
        calls_at_once=environment.calls_at_once,
        longest=LONGEST_ROUND,
        clock=timezone.now,
    )
    if made:
        reconcile_cluster(cluster_id=cluster_id, now=timezone.now())


def _with_connection(act: Callable[[UUID], None], cluster_id: UUID) -> None:
    """A thread of ours keeps its database connection as Celery's keep theirs."""
    close_old_connections()
    try:
        act(cluster_id)
    finally:
        close_old_connections()


@shared_task(acks_late=True, ignore_result=True, time_limit=TIME_LIMIT_S)
def dispatch_all(**_: object) -> None:
    """The safety net: one nudge a cluster with orders due."""
    if not _DELIVERY_TICKS.is_due():
        return
    for cluster_id in clusters_to_deliver(timezone.now()):
        dispatch.apply_async((str(cluster_id),), queue="dispatch", expires=EXPIRES_S)


@shared_task(acks_late=True, ignore_result=True, time_limit=TIME_LIMIT_S)
def observe(cluster_id: str, **_: object) -> None:
    """Reads one cluster and reconciles with what was seen."""
    _READINGS.run(cluster_id, partial(_with_connection, _read, UUID(cluster_id)))


def _read(cluster_id: UUID) -> None:
    done = read_cluster(
        cluster_id=cluster_id,
        fences=fences_to_look_up(cluster_id),
        holder=_holder(),
        life=timedelta(milliseconds=settings.ENVIRONMENT.lease_ms),
        clock=timezone.now,
    )
    if done:
        reconcile_cluster(cluster_id=cluster_id, now=timezone.now())


@shared_task(acks_late=True, ignore_result=True, time_limit=TIME_LIMIT_S)
def observe_all(**_: object) -> None:
    """One nudge a cluster whose reading is old."""
    if not _READING_TICKS.is_due():
        return
    interval = timedelta(milliseconds=settings.ENVIRONMENT.observe_interval_ms)
    for cluster_id in clusters_to_observe(timezone.now(), interval):
        observe.apply_async((str(cluster_id),), queue="observe", expires=EXPIRES_S)


@shared_task(acks_late=True, ignore_result=True, time_limit=600, soft_time_limit=500)
def prune(**_: object) -> None:
    """Deletes orders, jobs and simulations past their retention. Who is stopped goes on next time."""
    if is_held():  # a recovery compares what it finds with what is kept
        return
    now = timezone.now()
    prune_orders(keep_days=settings.ENVIRONMENT.keep_orders_days, now=now)
    prune_jobs(keep_days=settings.ENVIRONMENT.keep_jobs_days, now=now)
    prune_simulations(now=now)


@shared_task(acks_late=True, ignore_result=True, time_limit=60)
def simulate(**_: object) -> None:
    """Starts a process for the simulations that are due, unless this worker's own still works.

    Workers do not agree about it: who takes a simulation first, the rows decide.
    """
    if _SIMULATING.is_over() and is_simulation_due(timezone.now()):
        _SIMULATING.start()
