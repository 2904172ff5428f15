"""How long to wait before the next attempt: exponential, bounded, with jitter so that clients do not come in step."""

import random

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """`initial` seconds after the first failure, `factor` times longer after each further one, at most `maximum`."""

    initial: float
    maximum: float
    factor: float = 2.0
    jitter: float = 0.0
    """Up to this part of the delay is added at random: 0.5 makes of 2 s something between 2 s and 3 s."""

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row; none after none. Jitter never exceeds the maximum."""
        if failures <= 0:
            return 0.0
        try:
            plain = self.initial * self.factor ** (failures - 1)
        except OverflowError:
            return self.maximum
        spread = 1 + random.random() * self.jitter  # noqa: S311 - not a secret
        return min(plain * spread, self.maximum)
