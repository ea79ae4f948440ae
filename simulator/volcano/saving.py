"""The state file of a Volcano cluster: its objects as they are, without events and past versions."""

import json
import os
from pathlib import Path
from typing import Any

from simulator.config import Cluster, ConfigError
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Store

VERSION = 1
_LEFT_OUT = ("events",)


def write(config: Cluster, store: Store) -> None:
    """Write the state file, if the cluster has one; all of it or nothing."""
    if config.state_file is None:
        return
    objects = {
        resource.plural: list(things.values())
        for resource, things in store.items.items()
        if things and resource.plural not in _LEFT_OUT
    }
    path = Path(config.state_file)
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w") as file:
        json.dump({"v": VERSION, "revision": store.revision, "objects": objects}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read(config: Cluster, store: Store) -> bool:
    """Fill an empty store from the state file; False if there is none.

    Raises:
        ConfigError: it is no state file of a Volcano cluster.
    """
    if config.state_file is None or not Path(config.state_file).exists():
        return False
    try:
        saved: dict[str, Any] = json.loads(Path(config.state_file).read_text())
        if saved["v"] != VERSION:
            raise ValueError(f"version {saved['v']}")
        for plural, things in saved["objects"].items():
            for thing in things:
                store.restore(BY_PLURAL[plural], thing)
        store.revision = int(saved["revision"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{config.state_file}: not a state file: {error}") from error
    store.forget_changes()
    return True
