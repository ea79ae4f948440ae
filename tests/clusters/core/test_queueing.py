"""The nearest queue that is named for a tenant, or for one above it, takes its jobs."""

import pytest

from clusters.core.observation import ForeignLoad, Observation, QueueSeen
from clusters.core.options import option_problems
from clusters.core.queueing import queue_gaps, queue_of, tells_classes_apart

NAMED = {"queue.acme": "acme", "queue.acme/vision": "vision-{flavor}-{class}", "mark": "m"}


@pytest.mark.parametrize(
    ("path", "queue"),
    [
        ("acme/vision/pretrain", "vision-h100-spot"),
        ("acme/vision", "vision-h100-spot"),
        ("acme/visions", "acme"),
        ("rivals", ""),
    ],
)
def test_the_nearest_counts(path: str, queue: str) -> None:
    assert queue_of(NAMED, path, "h100", "spot") == queue


def test_a_queue_of_one_class_keeps_a_job_in_it() -> None:
    assert tells_classes_apart(NAMED)
    assert not tells_classes_apart({"queue.acme": "acme-{flavor}", "environment.A": "{class}"})


def test_every_queue_that_is_named_has_to_take_jobs() -> None:
    seen = Observation(
        begun_ms=0,
        cluster_ms=0,
        nodes=(),
        queues=(
            QueueSeen("acme", True, 0, None),
            QueueSeen("vision-h100-guaranteed", True, 0, None),
            QueueSeen("vision-h100-spot", False, 0, None),
        ),
        reservations=(),
        gangs=(),
        foreign=ForeignLoad(),
        accounting_answered=True,
    )
    (gap,) = queue_gaps(NAMED, ["h100"], seen)
    assert (gap.pointer, gap.code) == ("/options/queue.acme~1vision", "not_on_cluster")
    assert "closed: vision-h100-spot. It has: acme, vision-h100-guaranteed" in gap.detail


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("queue.acme/vision", "vision-{flavor}-{class}", None),
        ("queue.acme", "a.b", "invalid_option"),
        ("queue.acme", "vision/h100", "invalid_option"),
        ("queue.acme", "Vision", "invalid_option"),
        ("queue.acme", "vision-{tenant}", "invalid_option"),
        ("queue.acme", "", "invalid_option"),
        ("queue.Acme", "acme", "unknown_option"),
        ("queue.", "acme", "unknown_option"),
    ],
)
def test_an_option_names_a_path_and_a_queue(name: str, value: str, code: str | None) -> None:
    found = [one.code for one in option_problems("/options", {name: value}, "volcano")]
    assert found == ([code] if code else [])
