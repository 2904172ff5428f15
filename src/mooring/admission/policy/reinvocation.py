"""What those who change one write know of each other: whether it is the second round, and who is asked again."""

import msgspec


class Reinvocation(msgspec.Struct):
    """Whoever changes the object says so with `changed`.

    Then those who were asked before, and wish it (`IfNeeded`), are asked once more, in a second round.
    """

    is_second: bool = False
    wanted: bool = False
    _invoked: set[object] = msgspec.field(default_factory=set)
    _again: set[object] = msgspec.field(default_factory=set)

    def invoked(self, who: object) -> None:
        """Somebody was asked who wants to be asked again if something is changed after that."""
        self._invoked.add(who)

    def changed(self) -> None:
        """The object was changed: those who were asked before want to see it."""
        self.wanted = True
        self._again |= self._invoked
        self._invoked = set()

    def skips(self, who: object) -> bool:
        """Whether somebody is not asked in this round."""
        return self.is_second and who not in self._again
