"""Vectors: the results of one plugin by node row, evaluated again where an input that the plugin declares changed.

A `PluginVector` compares its positions with the inputs that its plugin declares, and collects the rows to evaluate
again. Verdicts are in ``filter_vectors.py``, scores in ``score_vectors.py``; ``evaluation.py`` makes and combines them.
"""

from collections.abc import Hashable
from itertools import count
from typing import Any

from mooring.constraints.columns.revisions import NEVER, ChangedRows, Derived, union
from mooring.scheduler.columns.inputs import Input, Inputs, Revision
from mooring.scheduler.deciding.profile_plan import PluginUse

_serials = count(1)
_NEVER_CHANGES = Revision()


class Meter:
    """Counts the memory that the cached vectors take."""

    def __init__(self) -> None:
        self.bytes = 0


class Vector(Derived):
    """An array of a plugin's results with a value for each node row, and the log of its changes."""

    meter: Meter | None = None
    charged = 0
    """How many bytes of the meter's total are this vector's."""
    combinations: tuple[Hashable, ...] = ()
    """The keys of cached combinations that may use it."""

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        """The index of the plugin in its profile."""
        self.serial = next(_serials)

    def charge(self, nbytes: int) -> None:
        if self.meter is not None and nbytes != self.charged:
            self.meter.bytes += nbytes - self.charged
            self.charged = nbytes


class PluginVector(Vector):
    """A vector whose node rows are evaluated again when an input that the plugin declares has changed."""

    dirty: ChangedRows = None
    """The node rows to evaluate; at first, and after an exception, all."""
    _position = _revision = _verified_at = _idle_at = NEVER
    _idle: Revision = _NEVER_CHANGES

    def __init__(self, use: PluginUse, state: Any, inputs: Inputs) -> None:
        self.name = use.name
        self.index = use.index
        self.serial = next(_serials)
        self.use = use
        self.state = state
        """What the plugin has prepared for the part."""
        self._inputs = inputs

    def _collect_changes(self, *arguments: Any) -> bool:
        """Collect the node rows that changed since the last call; return False if the plugin skips from now on."""
        use = self.use
        position = use.log.changed_at
        if position != self._position:
            if self.dirty is not None:
                self.dirty = union(self.dirty, use.log.since(self._position))
            self._position = position
        if use.refresh is not None and use.revision.value != self._revision:
            self._revision = NEVER  # until the plugin has returned
            revision = use.revision.value
            derived = use.refresh(self.state, *arguments)
            if isinstance(derived, Input):
                self._idle = self._inputs.revision(derived)
                self._idle_at = self._idle.value
                return False
            if derived.changed_at > self._verified_at:
                if self.dirty is not None:
                    self.dirty = union(self.dirty, derived.since(self._verified_at))
                self._verified_at = derived.changed_at
            self._revision, self._idle_at = revision, NEVER
        return True
