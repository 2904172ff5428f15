"""Track reinvocation: whether this is the second round of mutation, and which policies and webhooks run again."""

import msgspec


class Reinvocation(msgspec.Struct):
    """Record invocations and changes of the object.

    After a change, earlier policies and webhooks with reinvocation policy `IfNeeded` run once more, in a second round.
    """

    is_second: bool = False
    wanted: bool = False
    _invoked: set[object] = msgspec.field(default_factory=set)
    _again: set[object] = msgspec.field(default_factory=set)

    def record_invocation(self, invocation: object) -> None:
        """Record a policy binding or webhook that must run again if the object changes later."""
        self._invoked.add(invocation)

    def record_change(self) -> None:
        """Record that the object changed, so that recorded policies and webhooks run again in the second round."""
        self.wanted = True
        self._again |= self._invoked
        self._invoked = set()

    def should_skip(self, invocation: object) -> bool:
        """Whether this is the second round and the object has not changed since the invocation."""
        return self.is_second and invocation not in self._again
