"""Python's garbage collector, tuned for a process that loads once and then works in bursts."""

import gc


def settle() -> None:
    """Call it when everything is loaded.

    What is there now lives as long as the process, so the collector need not walk it again and
    again. A batch of 1,000 jobs, or a cycle over 10,000, makes some 100,000 objects that live until
    it is done; with Python's usual threshold the collector takes up to a third of such a burst.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
