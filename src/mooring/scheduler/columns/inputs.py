"""The inputs that derived values depend on, such as node labels, and logs of their changes.

A plugin declares the inputs that its verdicts or scores depend on. The cluster records every change under its input.
`log` returns the log of changed rows for a combination of inputs; `revision` is a number that rises with every change,
so that a reader compares one number to see whether its value is stale.
"""

from enum import Flag, auto

from mooring.constraints.columns.revisions import RowLog


class Input(Flag):
    """A part of the cluster's state from which verdicts and scores are derived."""

    NODE_LABELS = auto()
    """A node's name and labels."""
    NODE_TAINTS = auto()
    NODE_CORDONED = auto()
    """`spec.unschedulable` of a node."""
    NODE_ALLOCATABLE = auto()
    NODE_IMAGES = auto()
    PODS = auto()
    """The pods on a node: the resources and ports they use, their labels and affinity terms."""
    TERMS = auto()
    """The set of pod-affinity terms that placed pods have."""
    NAMESPACES = auto()
    """Labels of namespaces."""
    OBJECTS = auto()
    """Objects of all kinds other than nodes and pods."""
    NODE = NODE_LABELS | NODE_TAINTS | NODE_CORDONED | NODE_ALLOCATABLE | NODE_IMAGES
    """Every field of a node that scheduling reads."""
    __hash__ = object.__hash__  # that of `Enum` is a Python function, which takes longer than a lookup


class Revision:
    """A number that rises whenever one of several inputs of the scheduler changes."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Inputs:
    """Records changes of inputs such as taints: a log of node rows and a revision for each set of inputs read."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._logs: dict[Input, RowLog] = {}
        self._revisions: dict[Input, Revision] = {}
        self._logs_of: dict[Input, list[RowLog]] = {}
        self._revisions_of: dict[Input, list[Revision]] = {}

    def log(self, inputs: Input) -> RowLog:
        """Return a log of the node rows on which any of `inputs` changes from now on."""
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
        """Record that one input, such as the taints, changed for a node row."""
        for log in self._logs_of.get(source, ()):
            log.note(row)
        for revision in self._revisions_of.get(source, ()):
            revision.value += 1

    def note_node(self, row: int) -> None:
        """Record that a node row got another node or lost its node, which changes every input on it."""
        for log in self._logs.values():
            log.note(row)
        for revision in self._revisions.values():
            revision.value += 1

    def touch(self, source: Input) -> None:
        """Record that an input of the whole cluster, rather than of one node row, changed."""
        for revision in self._revisions_of.get(source, ()):
            revision.value += 1

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for log in self._logs.values():
            log.limit = capacity
