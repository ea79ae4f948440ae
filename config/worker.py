"""A worker: `python -m config.worker QUEUE --concurrency N`.

What Celery's own command line would do with the same options, without that command line: its
interactive shell takes 9 MB of every process.
"""

import argparse
import sys
from socket import gethostname

from celery.utils.nodenames import nodename

from config.celery import app
from config.queues import QUEUES


def main(argv: list[str]) -> int:
    """Work through one queue, in threads, until told to stop; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m config.worker")
    parser.add_argument("queue", choices=QUEUES)
    parser.add_argument("--concurrency", type=int, required=True, help="threads")
    arguments = parser.parse_args(argv)
    worker = app.Worker(
        hostname=nodename(arguments.queue, gethostname()),
        queues=[arguments.queue],
        pool="threads",
        concurrency=arguments.concurrency,
        without_gossip=True,
        without_mingle=True,
        quiet=True,  # its banner, printed where there is no room, would end the process
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
