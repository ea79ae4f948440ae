"""Configuration: read whole, refused with the field at fault."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.config import Config, ConfigError, Tier, dump, load, parse
from simulator.engine.topology import block_of
from simulator.examples import cluster_config, example_config


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    config = example_config(tmp_path)
    path = tmp_path / "c.json"
    path.write_text(dump(config))
    assert load(path) == config


def test_the_example_option_prints_a_configuration() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "simulator", "--example"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    config = parse(json.loads(printed.stdout))
    assert [c.name for c in config.clusters] == ["aurora", "borealis", "cirrus"]


BASE: dict[str, Any] = {"name": "a", "jwt_key_file": "k"}


@pytest.mark.parametrize(
    ("cluster", "where"),
    [
        ({"name": "a"}, "jwt_key_file: is needed"),
        ({**BASE, "colour": 1}, "colour: unknown field"),
        ({**BASE, "nodes": "16"}, "nodes: must be int"),
        ({**BASE, "nodes": True}, "nodes: must be int"),
        ({**BASE, "nodes": 0}, "needs nodes"),
        ({**BASE, "speed": 0}, "speed above zero"),
        ({**BASE, "clock": "sundial"}, "clock is"),
        ({**BASE, "tiers": [{"name": "leaf", "nodes": 0}]}, "tier"),
        ({**BASE, "foreign": {"percent": "x"}}, "foreign/percent"),
        ({**BASE, "users": {}}, "users: must be list"),
    ],
)
def test_a_bad_field_is_named(cluster: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        parse({"clusters": [cluster]})


def test_two_clusters_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="same name"):
        parse({"clusters": [BASE, BASE]})


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            load(path)


def test_blocks_of_equal_and_of_listed_sizes() -> None:
    assert [block_of(Tier("leaf", 4), i) for i in (0, 3, 4, 15)] == [0, 0, 1, 3]
    assert [block_of(Tier("leaf", [2, 3]), i) for i in (0, 1, 2, 4, 5, 8)] == [0, 0, 1, 1, 2, 3]


def test_a_cluster_for_tests_takes_any_field() -> None:
    cluster = cluster_config("x", jwt_key_file="k", nodes=4, gpu_type="a100")
    assert (cluster.nodes, cluster.gpu_type, cluster.prefix) == (4, "a100", "x-n")
    assert parse(json.loads(dump(Config([cluster])))).clusters == [cluster]
