"""A steady load over REST that outlives every outage: each job is asked for until it is answered.

Every request carries an `Idempotency-Key`, as a careful client's would, so that asking again after
a lost answer makes no second job. `Load.jobs` is what the service promised to run.
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

AGAIN = {409, 429, 500, 502, 503, 504}  # 409: the first try under this key is still being answered
PAUSE_S = 0.1


@dataclass
class Load:
    """Submits `body()` over and over, a pause of `every_s` apart, until it is stopped.

    Attributes:
        jobs: ids by `Idempotency-Key`, in the order of their answers.
        repeats: requests that had to be made again.
        wrong: answers that no outage explains; anything here fails the test.
    """

    url: str
    token: str
    body: Callable[[], dict[str, Any]]
    every_s: float
    jobs: dict[str, str] = field(default_factory=dict)
    repeats: int = 0
    wrong: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def ids(self) -> list[str]:
        """The jobs that were promised."""
        return list(self.jobs.values())

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Submits while the block runs; at its end the request in hand is still answered."""
        self._stopping.clear()
        thread = threading.Thread(target=self._submit_all, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            thread.join(120)
        assert not thread.is_alive(), "a job is still waiting for its answer"
        assert not self.wrong, self.wrong

    def _submit_all(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=10) as client:
            while not self._stopping.is_set() and not self.wrong:
                self._submit(client, str(uuid.uuid4()), self.body())
                self._stopping.wait(self.every_s)

    def _submit(self, client: httpx.Client, key: str, body: dict[str, Any]) -> None:
        while True:
            try:
                answer = client.post("/jobs", json=body, headers={"Idempotency-Key": key})
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code == 201:
                self.jobs[key] = str(answer.json()["id"])
                return
            if answer is not None and answer.status_code not in AGAIN:
                self.wrong.append(f"{answer.status_code} {answer.text}")
                return
            self.repeats += 1
            threading.Event().wait(PAUSE_S)
