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

    def invoked(self, who: object) -> None:
        """Record an invocation that wants to run again after later changes."""
        self._invoked.add(who)

    def changed(self) -> None:
        """Record a change of the object: earlier invocations run again."""
        self.wanted = True
        self._again |= self._invoked
        self._invoked = set()

    def skips(self, who: object) -> bool:
        """Whether an invocation does not run in this round."""
        return self.is_second and who not in self._again
