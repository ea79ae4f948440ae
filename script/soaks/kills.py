"""Every process of ours and of Slurm killed or frozen at random under load, on real Slurm.

It is the live test of that name for as long as is said, by `script/test` (root on Debian), which
brings servers of its own even where DATABASE_URL names one: they are killed too.
"""

import argparse
import os
import sys

from script import suite
from script.console import exit_code_of

GIVEN = ("DATABASE_URL", "REDIS_URL")


def main() -> None:
    """Run the test."""
    parser = argparse.ArgumentParser(prog="script/soak kills", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=4, help="another order of kills and jobs")
    arguments = parser.parse_args()
    for name in GIVEN:
        os.environ.pop(name, None)
    os.environ["MUSTER_KILL_SECONDS"] = str(arguments.seconds)
    os.environ["MUSTER_KILL_SEED"] = str(arguments.seed)
    words = ["--live", "slurm", "--live-only", "-s", "-k", "killed_under_load"]
    sys.exit(exit_code_of(lambda: suite.main(words)))


if __name__ == "__main__":
    main()
