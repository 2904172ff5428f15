"""Vectors of plugins: which rows are stale, and how much memory a vector takes.

A `PluginVector` compares its positions with the inputs that its plugin declares, and collects the rows to evaluate
again. Verdicts are in ``filter_vectors.py``, scores in ``score_vectors.py``; ``evaluation.py`` makes and combines them.
"""

from collections.abc import Callable, Hashable
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


class Vector:
    """An array of a plugin's results with a value for each node row, cached by an evaluator."""

    meter: Meter | None = None
    charged = 0
    """How many bytes of the meter's total are this vector's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.serial = next(_serials)
        self.combinations: list[Hashable] = []
        """The keys of cached combinations that may use it."""
        self.changes = Derived()
        """When values changed, and on which node rows."""

    def charge(self, nbytes: int) -> None:
        if self.meter is not None:
            self.meter.bytes += nbytes - self.charged
            self.charged = nbytes


class PluginVector(Vector):
    """A vector whose node rows are evaluated again when an input that the plugin declares has changed."""

    dirty: ChangedRows = None
    """The node rows to evaluate; at first, and after an exception, all."""
    _position = _revision = _verified_at = _idle_at = NEVER
    _idle: Revision = _NEVER_CHANGES

    def __init__(self, use: PluginUse, state: Any, inputs: Inputs) -> None:
        super().__init__(use.name)
        self.state = state
        """What the plugin has prepared for the part."""
        self._inputs = inputs

    @property
    def is_idle(self) -> bool:
        """Whether the plugin skips this pod until one of its declared inputs changes."""
        return self._idle.value == self._idle_at

    def collect_changes(self, use: PluginUse, refresh: Callable[..., Derived | Input], *arguments: Any) -> bool:
        """Collect the node rows that changed since the last call; return False if the plugin skips from now on."""
        position = use.log.changed_at
        if position != self._position:
            if self.dirty is not None:
                self.dirty = union(self.dirty, use.log.since(self._position))
            self._position = position
        revision = use.revision.value
        if use.has_refresh and revision != self._revision:
            self._revision = NEVER  # until the plugin has returned
            derived = refresh(self.state, *arguments)
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
