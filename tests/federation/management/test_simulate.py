"""`manage.py simulate`: what it prints of files that are right, and what it says of those that are not."""

import json
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

HEAD = "job_id,submit_time,duration,gpus,tenant,klass,user"
TRACE = [
    "1,0,600,8,vc_b,best,-1",
    "2,50,300,8,vc_a,strict,-1",
    "3,60,10,0,vc_a,strict,-1",
    "4,70,-1,1,vc_a,strict,-1",
]
QUOTAS = "tenant,flavor,guaranteed\norg,h100,8\norg/vc-a,h100,{a}\norg/vc-b,h100,0\n"


def files(tmp_path: Path, *rows: str, head: str = HEAD, quotas: str = QUOTAS) -> dict[str, str]:
    (tmp_path / "trace.csv").write_text("\n".join([head, *(rows or TRACE)]) + "\n")
    for name, gpus in (("one", 8), ("two", 0)):
        (tmp_path / f"{name}.csv").write_text(quotas.format(a=gpus))
    return {"trace": str(tmp_path / "trace.csv"), "quotas": str(tmp_path / "one.csv")}


def run(*flags: str, **options: object) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("simulate", *flags, stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


def test_two_policies_side_by_side(tmp_path: Path) -> None:
    given = files(tmp_path)
    out, err = run("--json", **given, against=str(tmp_path / "two.csv"))
    told = json.loads(out)
    one, two = told["outcomes"]
    assert told["left_out"] == {"without GPUs": 1, "of unknown duration": 1}
    assert "1 jobs without GPUs are left out." in err
    a, b = one["tenants"]
    assert (a["tenant"], a["waits"]["guaranteed"]["p50"]) == ("org/vc-a", 10)
    assert (b["evictions"], b["lost_gpu_ms"]) == (1, 480_000)
    assert b["cost"] == {"amount": "1.466666666", "currency": "USD"}
    assert b["gpu_hours"] == {"spot": "1.466667"}
    costs = [Decimal(tenant["cost"]["amount"]) for tenant in one["tenants"]]
    assert sum(costs) == Decimal(one["total"]["cost"]["amount"]) == Decimal("2.799999999")
    # Without its guarantee the owner's job cannot start at all: the parent's headroom is for all.
    assert two["tenants"][0]["waits"]["guaranteed"]["p50"] == 10
    assert one["total"]["jobs"] == two["total"]["jobs"] == 2
    # In all the same is told as of each tenant.
    assert set(one["total"]) == set(a) - {"tenant", "weight"}
    assert one["total"]["gpu_hours"] == {"guaranteed": "0.666667", "spot": "1.466667"}
    assert one["total"]["finished"] == 2
    assert one["total"]["waits"] == {
        "guaranteed": {"jobs": 1, "p50": 10.0, "p90": 10.0},
        "spot": {"jobs": 1, "p50": 0.0, "p90": 0.0},
    }


def test_a_table_for_people(tmp_path: Path) -> None:
    out, _ = run(**files(tmp_path))
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["tenant", "policy", "jobs", "never"]
    assert lines[1].split()[:4] == ["org/vc-a", "A", "1", "0"]
    assert lines[3].split()[:8] == ["(all)", "A", "2", "0", "10", "10", "0", "0"]
    assert "Jain's index" in out


def test_the_fleet_prices_classes_and_checkpoints_are_options(tmp_path: Path) -> None:
    given = files(tmp_path)
    flags = ("--json", "--cluster", "x:h100:2x8", "--class", "strict=spot", "--class", "best=auto")
    more = ("--price", "spot=3.5", "--checkpoint", "60", "--grace", "30")
    out, _ = run(*flags, *more, **given)
    (one,) = json.loads(out)["outcomes"]
    a = one["tenants"][0]
    assert list(a["waits"]) == ["spot"]  # two nodes: nobody evicts anybody
    assert one["total"]["evictions"] == 0
    assert a["cost"]["amount"] == "2.333333333"  # 8 GPUs, 300 s, 3.5 an hour


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,0,x,1,vc_a,best,-1", "row 1, duration: 'x' is no whole number"),
        ("1,0,-5,1,vc_a,best,-1", "row 1, duration: '-5'"),
        ("1,0,1e9,1,vc_a,best,-1", "row 1, duration: '1e9'"),
        ("1,0,99999999999999999999,1,vc_a,best,-1", "row 1, duration"),
        ("1,-1,5,1,vc_a,best,-1", "row 1, submit_time: It is needed."),
        ("1,0,5,,vc_a,best,-1", "row 1, gpus: It is needed."),
        (",0,5,1,vc_a,best,-1", "row 1, job_id: It is empty."),
        ("1,0,5", "row 1, whole: It has 3 cells, not 7."),
        ('1,0,5,1,"vc_a,best,-1', "row 0, whole: Line 2 is not CSV"),
        ("1,0,5,0,vc_a,best,-1", "no job that can be replayed"),
        ("=1+1,0,=2,1,vc_a,best,-1", "row 1, duration: '=2'"),
    ],
)
def test_a_bad_trace_is_refused_with_row_and_field(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(**files(tmp_path, row))
    assert words in str(refused.value)


def test_every_fault_is_told_and_ids_are_unique(tmp_path: Path) -> None:
    given = files(tmp_path, "1,0,5,1,a,best,-1", "1,0,5,1,a,best,-1", "2,a,b,c,a,best,-1")
    with pytest.raises(CommandError) as refused:
        run(**given)
    told = str(refused.value)
    assert "row 2, job_id: Row 1 has the same." in told
    assert all(f"row 3, {name}" in told for name in ("submit_time", "duration", "gpus"))


def test_a_trace_without_its_columns_is_none(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="row 0, gpus: There is no column gpus"):
        run(**files(tmp_path, "1,0,5", head="job_id,submit_time,duration"))


@pytest.mark.parametrize(
    ("quotas", "words"),
    [
        ("tenant,flavor,guaranteed\norg,h100,4\norg/vc-a,h100,8\n", "row 1, guaranteed: org/vc-a"),
        ("tenant,flavor,guaranteed\norg,h100,eight\n", "row 1, guaranteed: 'eight'"),
        (
            "tenant,flavor,guaranteed,cluster\norg,h100,8,\norg,h100,8,mars\n",
            "row 2, cluster: There is no",
        ),
        ("tenant,flavor,guaranteed,weight\norg,h100,8,0\n", "row 1, guaranteed: Guarantees"),
        ("tenant,flavor,guaranteed\norg,h100,0\n", "guarantee nothing"),
    ],
)
def test_bad_quotas_are_refused_with_row_and_field(tmp_path: Path, quotas: str, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(**files(tmp_path, quotas=quotas))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "flags",
    [
        ("--cluster", "x:h100:0x8"),
        ("--cluster", "x"),
        ("--class", "best=cheap"),
        ("--price", "spot=-1"),
        ("--price", "best=1"),
        ("--flavor", "b200"),
        ("--checkpoint", "0"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, flags: tuple[str, ...]) -> None:
    given = files(tmp_path)
    with pytest.raises(CommandError):
        run("--trace", given["trace"], "--quotas", given["quotas"], *flags)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    given = files(tmp_path)
    with pytest.raises(CommandError, match="cannot be read"):
        run(trace=str(tmp_path / "none.csv"), quotas=given["quotas"])


def test_who_has_no_quota_is_said_and_never_starts(tmp_path: Path) -> None:
    given = files(tmp_path, "1,0,5,1,stranger,best,-1")
    out, err = run("--json", **given)
    assert "no quota for stranger" in err
    assert json.loads(out)["outcomes"][0]["total"]["never"] == 1


def test_users_may_be_the_tenants(tmp_path: Path) -> None:
    given = files(tmp_path, "1,0,5,1,other,best,vc_a")
    out, _ = run("--json", "--by-user", **given)
    assert json.loads(out)["outcomes"][0]["tenants"][0]["tenant"] == "org/vc-a"
