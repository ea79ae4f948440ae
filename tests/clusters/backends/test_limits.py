"""Limits of accounts over slurmdb: what is sent so that nothing else changes and nothing crashes."""

import pytest

from clusters.backends.slurm.limits import NOT_TAKEN, limit_command
from clusters.backends.slurm.values import Json
from clusters.core.backend import BackendRejectedError, BackendUnavailableError
from tests.clusters.backends.fake import Answer, Table, backend, faulty, reply

USERS = reply(users=[{"name": "mia", "administrator_level": "None"}])
TRES = reply(TRES=[{"type": "gres", "name": "gpu:h100"}, {"type": "gres", "name": "gpu"}])


def gpus(count: int, name: str = "gpu:h100") -> Json:
    return {"type": "gres", "name": name, "id": 1002, "count": count}


def cpus(count: int) -> Json:
    return {"type": "cpu", "name": None, "id": 1, "count": count}


def row(
    account: str,
    parent: str | None,
    *total: Json,
    qos: str = "spot",
    per_job: tuple[Json, ...] = (),
) -> Json:
    tres = {
        "total": list(total),
        "minutes": {"per": {"job": []}, "total": []},
        "group": {"minutes": [cpus(77)], "active": []},
        "per": {"job": list(per_job), "node": []},
    }
    return {
        "account": account,
        "cluster": "alpha",
        "parent_account": parent,
        "user": None,
        "partition": None,
        "qos": [qos],
        "is_default": 0,
        "max": {"tres": tres},
    }


ROOT = row("root", None, qos="normal")


def table(*rows: Json, post: Answer | None = None) -> Table:
    return Table(
        {
            "GET slurmdb/associations": reply(associations=[ROOT, *rows]),
            "GET slurmdb/users": USERS,
            "GET slurmdb/tres": TRES,
            "POST slurmdb/associations": post or reply(),
        }
    )


def sent(asked: Table) -> list[Json]:
    bodies = [body for key, body in asked.asked if key.startswith("POST")]
    return [one for body in bodies for one in body["associations"]]  # type: ignore[index]


def test_every_limit_that_an_account_has_is_sent_back_as_it_was_read() -> None:
    """slurmrestd 22.05 crashes for want of a kind that is set, and drops TRES that are left out."""
    asked = table(row("vis", "root", cpus(4000), gpus(5)))
    backend(asked).set_limits({"vis": {"gpu:h100": 16}}, "alpha")
    body = sent(asked)[0]
    assert body["max"]["tres"]["total"] == [
        cpus(4000),
        {"type": "gres", "name": "gpu:h100", "count": 16},
    ]
    assert body["max"]["tres"]["group"] == {"minutes": [cpus(77)], "active": []}
    assert set(body) == {"account", "cluster", "user", "partition", "max"}
    assert set(body["max"]) == {"tres"}


def test_what_is_there_already_is_not_sent() -> None:
    asked = table(row("vis", "root", gpus(16)))
    assert backend(asked).set_limits({"vis": {"gpu:h100": 16}}, "alpha") == {"vis": ""}
    assert sent(asked) == []


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (row("vis", "root", qos="normal"), "its QOS may come from root"),
        (row("vis", "top", per_job=(cpus(3),), qos="own"), "its limit per.job may come from top"),
    ],
)
def test_an_account_that_may_inherit_is_not_written(account: Json, words: str) -> None:
    top = row("top", "root", per_job=(cpus(3),))
    asked = table(top, account)
    told = backend(asked).set_limits({"vis": {"gpu:h100": 16}}, "alpha")
    assert words in told["vis"]
    assert sent(asked) == []
    seen = backend(asked).limits().account("vis")
    assert seen is not None
    assert words in seen.fixed


def test_what_was_dropped_without_a_word_is_tried_again_and_told() -> None:
    asked = table(row("vis", "root"))
    told = backend(asked).set_limits({"vis": {"gpu:h100": 16}}, "alpha")
    assert told == {"vis": NOT_TAKEN}
    assert len(sent(asked)) == 2


def test_accounts_of_another_cluster_of_the_same_accounting_are_left_alone() -> None:
    other = {**row("vis", "root"), "cluster": "beta"}
    asked = table(row("spe", "root"), other)
    told = backend(asked, cluster_name="alpha").set_limits({"vis": {"gpu:h100": 1}}, "alpha")
    assert told == {"vis": "there is no such account in its accounting"}
    seen = backend(asked, cluster_name="alpha").limits()
    assert (seen.name, [one.account for one in seen.holders]) == ("alpha", ["root", "spe"])
    assert backend(asked, cluster_name="beta").limits().holders[0].account == "vis"


def test_silence_before_anything_is_written_is_an_error() -> None:
    asked = table(row("vis", "root"), post=faulty(500, {"error_number": 7000, "error": "down"}))
    with pytest.raises(BackendUnavailableError):
        backend(asked).set_limits({"vis": {"gpu:h100": 16}}, "alpha")


def test_no_limits_without_accounting() -> None:
    with pytest.raises(BackendRejectedError, match="no accounting"):
        backend(table(), accounting="off").limits()


def test_versions_that_were_not_run_live_are_read_and_not_written() -> None:
    newer = {**row("vis", "root"), "is_default": True}
    newer["max"]["tres"]["total"] = [
        {**gpus(0), "count": {"set": True, "infinite": False, "number": 12}}
    ]
    seen = backend(table(newer), api_version="v0.0.42").limits()
    vis = seen.account("vis")
    assert vis is not None
    assert vis.gpus == {"gpu:h100": 12}
    assert seen.obstacle is not None
    assert seen.obstacle.code == "api_version"


def test_the_command_names_one_account_of_one_cluster() -> None:
    assert limit_command("alpha", "vis", {"gpu:h100": 16, "gpu": 20}) == (
        "sacctmgr -i modify account where name=vis cluster=alpha "
        "set GrpTRES=gres/gpu=20,gres/gpu:h100=16"
    )


def test_a_sibling_in_step_is_put_before_an_account_whose_order_was_dropped() -> None:
    asked = table(row("vis", "root"), row("spe", "root", gpus(8)), row("sub", "spe", gpus(8)))
    wanted = {"sub": {"gpu:h100": 8}, "spe": {"gpu:h100": 8}, "vis": {"gpu:h100": 16}}
    backend(asked).set_limits(wanted, "alpha")
    told = [(one["account"], one["max"]["tres"]["total"][0]["count"]) for one in sent(asked)]
    assert told == [("vis", 16), ("spe", 8), ("vis", 16)]
