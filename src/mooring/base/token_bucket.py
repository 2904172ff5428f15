"""A rate limit with bursts, for requests of clients and for events."""

import msgspec


class TokenBucket(msgspec.Struct):
    """A bucket of at most `burst` tokens, refilled at `rate` tokens a second."""

    rate: float
    burst: float
    tokens: float
    at: float
    """When the bucket was last refilled, in seconds of a monotonic clock."""

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> "TokenBucket":
        return cls(rate, burst, burst, now)

    def take(self, now: float) -> float:
        """Take a token from the bucket and return 0, or return the seconds until there is one."""
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate
