"""Rate limits: token buckets in Valkey, by its clock.

A bucket holds a minute's worth and fills evenly. It is kept as one number, the time at which it is
full again, and expires then by itself. Whether Valkey is there is not for users to feel: without it
nothing is limited, one line in the log says so, and it is asked again some seconds later.
"""

import logging
import threading
import time
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.retry import Retry

logger = logging.getLogger(__name__)
WINDOW_S = 60
TIMEOUT_S = 0.25
REST_S = 5.0  # how long Valkey is left alone after it did not answer
SHARES = 600  # a process takes that part of a bucket at once, a tenth of a second's worth
SHARE_LIFE_S = 1.0
MOST_SHARES = 10_000

# Key: the bucket. Arguments: its limit a minute, what is wanted, what is needed at least. Answers
# how much was taken (0 = not enough there), the microseconds until the bucket is full again or has
# enough, and what it still holds.
_TAKE = """
local time, minute, limit = redis.call('TIME'), 60000000, tonumber(ARGV[1])
local now = time[1] * 1000000 + time[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
for i = 2, 3 do
    local take = math.min(tonumber(ARGV[i]), limit)
    local after = full + take * minute / limit
    if after - now <= minute + 1 then
        local life = math.ceil((after - now) / 1000) + 1
        redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', life)
        return {take, math.ceil(after - now), math.floor((minute - after + now) * limit / minute)}
    end
end
local needed = math.min(tonumber(ARGV[3]), limit) * minute / limit
return {0, math.ceil(full + needed - now - minute), 0}
"""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is charged: `key` names whose it is, `limit` is a minute's worth (0 = no limit)."""

    name: str
    key: str
    limit: int

    @property
    def share(self) -> int:
        """What a process takes at once, to spend by itself within a second: asking costs more CPU
        than all else about a limit. Where limits are low it is 1, and each charge is asked for.
        """
        return max(1, self.limit // SHARES)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the bucket had enough. `wait_s`: until it has, or else until it is full again."""

    is_allowed: bool
    bucket: Bucket
    wait_s: int
    left: int

    def headers(self) -> dict[str, str]:
        """`RateLimit-Policy` and `RateLimit` (IETF draft "RateLimit header fields for HTTP")."""
        name = f'"{self.bucket.name}"'
        return {
            "RateLimit-Policy": f"{name};q={self.bucket.limit};w={WINDOW_S}",
            "RateLimit": f"{name};r={self.left};t={self.wait_s}",
        }


@dataclass(slots=True)
class _Share:
    """What this process took and may still spend, until when; how the bucket stood then."""

    amount: int
    until_s: float
    wait_s: int
    left: int


class Limiter:
    """Charges buckets in one Valkey. For threads."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(
            url,
            socket_connect_timeout=TIMEOUT_S,
            socket_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 1),  # a kept connection may have died with its server
        )
        self._script = self._client.register_script(_TAKE).sha
        self._lock = threading.Lock()
        self._shares: dict[str, _Share] = {}
        self._asks_again_s = 0.0
        self._is_away = False

    def charge(self, bucket: Bucket, cost: int = 1) -> Verdict | None:
        """Takes `cost` of the bucket, or nothing when it holds less; None = not limited now.

        A cost above the limit counts as the limit: it needs a full bucket, and then passes.
        """
        now_s = time.monotonic()
        if bucket.limit <= 0 or now_s < self._asks_again_s:
            return None
        with self._lock:
            share = self._shares.get(bucket.key)
            if share and share.until_s > now_s and share.amount >= cost:
                share.amount -= cost
                return Verdict(True, bucket, share.wait_s, share.left + share.amount)
        try:
            taken, wait_us, left = self._take(bucket, cost)
        except RedisError as error:
            self._leave_alone(error)
            return None
        self._is_away = False
        wait_s = ceil(wait_us / 1_000_000)
        if not taken:
            return Verdict(False, bucket, wait_s, 0)
        rest = max(0, taken - cost)
        self._keep(bucket, _Share(rest, now_s + SHARE_LIFE_S, wait_s, left))
        return Verdict(True, bucket, wait_s, left + rest)

    def is_off(self) -> bool:
        """Whether Valkey does not answer, so that nothing is limited; asks it."""
        try:
            self._client.ping()
        except RedisError:
            return True
        return False

    def _take(self, bucket: Bucket, cost: int) -> tuple[int, int, int]:
        words = (bucket.key, str(bucket.limit), str(max(bucket.share, cost)), str(cost))
        answer: Any
        try:
            answer = self._client.evalsha(self._script, 1, *words)
        except NoScriptError:  # Valkey is new, or was restarted
            answer = self._client.eval(_TAKE, 1, *words)
        taken, wait_us, left = answer
        return int(taken), int(wait_us), int(left)

    def _keep(self, bucket: Bucket, share: _Share) -> None:
        if share.amount:
            with self._lock:
                if len(self._shares) >= MOST_SHARES:
                    self._shares.clear()
                self._shares[bucket.key] = share

    def _leave_alone(self, error: RedisError) -> None:
        with self._lock:
            self._asks_again_s = time.monotonic() + REST_S
            if not self._is_away:
                self._is_away = True
                logger.warning("rate limits are off, Valkey does not answer: %s", error)


@lru_cache(maxsize=4)
def limiter(url: str) -> Limiter:
    """The one limiter of this process for a Valkey."""
    return Limiter(url)
