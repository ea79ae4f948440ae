"""The nearest account that is named for a tenant, or for one above it, is charged."""

import pytest

from clusters.core.charging import charge_of
from clusters.core.options import option_problems

NAMED = {"charge": "all", "charge.acme": "acme", "charge.acme/vision": "vis", "charge.b": "b"}


@pytest.mark.parametrize(
    ("path", "account"),
    [
        ("acme/vision/pretrain", "vis"),
        ("acme/vision", "vis"),
        ("acme/visions", "acme"),
        ("acme", "acme"),
        ("b/c", "b"),
        ("rivals", "all"),
    ],
)
def test_the_nearest_counts(path: str, account: str) -> None:
    assert charge_of(NAMED, path) == account


def test_nothing_is_named() -> None:
    assert charge_of({}, "acme/vision") == ""
    assert charge_of({"charge.acme/vision": "vis"}, "acme") == ""


def test_an_option_names_a_path_and_an_account() -> None:
    good = {"charge.acme/vision": "vis", "cluster_name": "aurora", "charge": "ml"}
    assert list(option_problems("/options", good, "slurm")) == []
    for name, value, code in (
        ("charge.Acme", "vis", "unknown_option"),
        ("charge./acme", "vis", "unknown_option"),
        ("charge.acme/", "vis", "unknown_option"),
        ("charge.acme", "two words", "invalid_option"),
        ("cluster_name", "", "invalid_option"),
    ):
        assert [one.code for one in option_problems("/options", {name: value}, "slurm")] == [code]
