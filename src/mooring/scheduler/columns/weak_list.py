"""A list that does not keep its members alive: for those who follow a count as long as they need it.

Like `weakref.WeakSet`, but cheap to walk over, which happens for every pod that comes or goes.
"""

from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class WeakList(Generic[T]):
    def __init__(self) -> None:
        self._references: list[ref[T]] = []

    def add(self, member: T) -> None:
        self._references.append(ref(member))

    def remove(self, member: T) -> None:
        self._references = [entry for entry in self._references if entry() is not member]

    def members(self) -> list[T]:
        """Those that are still alive, oldest first."""
        if not self._references:
            return []
        alive = [member for entry in self._references if (member := entry()) is not None]
        if len(alive) < len(self._references):
            self._references = [ref(member) for member in alive]
        return alive
