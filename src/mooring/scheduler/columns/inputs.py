"""The inputs of derived values: what can change in a cluster, and the log of the changes that a reader depends on.

A plugin declares the inputs that its verdicts or scores depend on. The cluster notes every change under its input;
`log` gives each distinct combination of inputs one log of changed rows, and `revision` one number that rises with every
change, so a reader compares one number to know whether it is stale.
"""

from enum import Flag, auto

from mooring.constraints.columns.revisions import RowLog


class Input(Flag):
    """Something that verdicts and scores are derived from."""

    NODE_LABELS = auto()
    """A node's name and labels."""
    NODE_TAINTS = auto()
    NODE_CORDONED = auto()
    """`spec.unschedulable` of a node."""
    NODE_ALLOCATABLE = auto()
    NODE_IMAGES = auto()
    PODS = auto()
    """The pods on a node: what they use, their ports, their labels and terms."""
    TERMS = auto()
    """Which pod-affinity terms placed pods have."""
    NAMESPACES = auto()
    """Labels of namespaces."""
    OBJECTS = auto()
    """Objects other than nodes and pods."""
    NODE = NODE_LABELS | NODE_TAINTS | NODE_CORDONED | NODE_ALLOCATABLE | NODE_IMAGES
    """Everything of a node that scheduling reads."""


class Revision:
    """A number that rises with every change of some inputs."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Inputs:
    """Where changes are noted, and the logs for their readers."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._logs: dict[Input, RowLog] = {}
        self._revisions: dict[Input, Revision] = {}
        self._logs_of: dict[Input, list[RowLog]] = {}
        self._revisions_of: dict[Input, list[Revision]] = {}

    def log(self, inputs: Input) -> RowLog:
        """Return the log of rows for which any of `inputs` changes, from now on."""
        found = self._logs.get(inputs)
        if found is None:
            found = self._logs[inputs] = RowLog(self._capacity)
            for source in inputs:
                self._logs_of.setdefault(source, []).append(found)
        return found

    def revision(self, inputs: Input) -> Revision:
        found = self._revisions.get(inputs)
        if found is None:
            found = self._revisions[inputs] = Revision()
            for source in inputs:
                self._revisions_of.setdefault(source, []).append(found)
        return found

    def note(self, source: Input, row: int) -> None:
        """Note that one input has changed for a row."""
        for log in self._logs_of.get(source, ()):
            log.note(row)
        for revision in self._revisions_of.get(source, ()):
            revision.value += 1

    def note_node(self, row: int) -> None:
        """Note that a row has another node than before, or none: every input may be different there."""
        for log in self._logs.values():
            log.note(row)
        for revision in self._revisions.values():
            revision.value += 1

    def touch(self, source: Input) -> None:
        """Note that an input of the cluster as a whole has changed."""
        for revision in self._revisions_of.get(source, ()):
            revision.value += 1

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for log in self._logs.values():
            log.limit = capacity
