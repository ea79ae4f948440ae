"""Celery: queues, ticks and the rules every task follows.

Tasks are nudges: the rows say what is due. So a lost or doubled message costs nothing, the broker
keeps no result, and a late message expires.
"""

import os
from typing import Any

from celery import Celery, Task
from celery.signals import setup_logging, worker_ready

from config import broker
from config.queues import QUEUES
from kit import collector
from kit.logs import bound

OF_A_CLUSTER = frozenset({"federation.tasks.dispatch", "federation.tasks.observe"})

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

broker.use()


class Followed(Task):  # type: ignore[type-arg]  # celery-types knows no parameters for a base
    """A task whose log lines bear its id, its name and the cluster it is about."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it."""
        about = kwargs.get("cluster_id") or (args[0] if args and self.name in OF_A_CLUSTER else "")
        with bound(task=self.name, task_id=self.request.id, cluster_id=about):
            return self.run(*args, **kwargs)


app = Celery("muster", task_cls=Followed)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue="dispatch",
    task_routes={
        "federation.tasks.dispatch": {"queue": "dispatch"},
        "federation.tasks.dispatch_all": {"queue": "dispatch"},
        "federation.tasks.observe": {"queue": "observe"},
        "federation.tasks.observe_all": {"queue": "observe"},
        "accounting.tasks.*": {"queue": "accounting"},
        "tenancy.tasks.*": {"queue": "accounting"},
        "federation.tasks.prune": {"queue": "accounting"},
        "federation.tasks.simulate": {"queue": "accounting"},
    },
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_channel_error_retry=True,  # its memory full is no reason to end
    broker_transport_options={
        "visibility_timeout": 3600,
        # A nudge gives up at once when the broker is away: the next tick finds the same rows.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "socket_connect_timeout": 1,
    },
    beat_schedule={
        "dispatch": {
            "task": "federation.tasks.dispatch_all",
            "schedule": 1.0,
            "options": {"expires": 5},
        },
        "observe": {
            "task": "federation.tasks.observe_all",
            "schedule": 1.0,
            "options": {"expires": 5},
        },
        "post": {"task": "accounting.tasks.post", "schedule": 2.0, "options": {"expires": 10}},
        "sum-up": {
            "task": "accounting.tasks.sum_up",
            "schedule": 600.0,
            "options": {"expires": 60},
        },
        **{
            f"tick-{queue}": {
                "task": "tenancy.tasks.tick",
                "schedule": 10.0,
                "args": (queue,),
                "options": {"queue": queue, "expires": 30},
            }
            for queue in QUEUES
        },
        "simulate": {
            "task": "federation.tasks.simulate",
            "schedule": 3.0,
            "options": {"expires": 10},
        },
        "prune": {"task": "tenancy.tasks.prune", "schedule": 3600.0, "options": {"expires": 600}},
        "prune-jobs": {
            "task": "federation.tasks.prune",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
    },
)
app.autodiscover_tasks(["tenancy", "clusters", "accounting", "federation"])


@setup_logging.connect
def _keep_django_logging(**_: object) -> None:
    """Celery would install its own handlers; Django's configuration stands."""


@worker_ready.connect
def _settle_collector(**_: object) -> None:
    """A reading of a large cluster makes and drops objects by the ten thousand."""
    collector.settle()
