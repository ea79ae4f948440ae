"""`python -m simulator --config FILE [--port N]`, or `--example` for a file to start from."""

import argparse
import asyncio
import dataclasses
import sys
from pathlib import Path

from simulator.config import Config, ConfigError, dump, load
from simulator.examples import example_config
from simulator.server import run


def main(arguments: list[str] | None = None) -> int:
    """Run the simulator; 0 after a clean end, 2 if it cannot start."""
    parser = argparse.ArgumentParser(prog="simulator", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration file (JSON)")
    parser.add_argument("--port", type=int, help="port of the first cluster; the others follow")
    parser.add_argument("--example", action="store_true", help="print a configuration")
    options = parser.parse_args(arguments)
    if options.example:
        sys.stdout.write(dump(example_config(Path("."))) + "\n")
        return 0
    if options.config is None:
        parser.error("--config or --example is needed")
    try:
        asyncio.run(run(_on_ports(load(options.config), options.port)))
    except ConfigError as error:
        sys.stderr.write(f"simulator: {error}\n")
        return 2
    return 0


def _on_ports(config: Config, first: int | None) -> Config:
    if first is None:
        return config
    return Config(
        [
            dataclasses.replace(cluster, port=first + number if first else 0)
            for number, cluster in enumerate(config.clusters)
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
