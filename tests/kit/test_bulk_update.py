"""Many rows updated in one statement."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Node
from kit.bulk import update_rows
from tests import make

pytestmark = pytest.mark.django_db


def node(name: str) -> Node:
    return Node.objects.create(
        cluster=make.cluster(name), name=name, state="up", gpus=8, cpus=64, memory_mib=1024
    )


def test_each_row_gets_its_own_values_and_the_others_keep_theirs() -> None:
    first, second, third = node("a"), node("b"), node("c")
    values = {"state": "down", "path": [["leaf", "l'0"]], "queues": ["x", 'y"'], "gpus": 4}
    rows = [
        {"id": first.id, **values, "reason": "not written"},
        {"id": second.id, **values, "path": [], "queues": [], "gpus": 0, "reason": ""},
    ]
    with CaptureQueriesContext(connection) as queries:
        update_rows(Node, rows, tuple(values))
    assert len(queries) == 1
    first.refresh_from_db()
    second.refresh_from_db()
    assert {name: getattr(first, name) for name in values} == values
    assert first.reason == ""
    assert (second.path, second.queues, second.gpus) == ([], [], 0)
    third.refresh_from_db()
    assert (third.state, third.gpus) == ("up", 8)


def test_no_rows_no_statement() -> None:
    with CaptureQueriesContext(connection) as queries:
        update_rows(Node, [], ("state",))
    assert len(queries) == 0
