"""scheduling.k8s.io/v1: the priorities that pods may have.

Admission resolves `priorityClassName` through these; preemption compares the values. Read next: ``policy_v1.py``.
"""

from mooring.api.base import Int32, always
from mooring.api.meta_v1 import Resource


class PriorityClass(Resource):
    """Gives a name to a priority."""

    value: Int32 = always(int)
    """The priority of pods with this class; higher goes first."""
    global_default: bool = False
    """Whether pods without a class get this one; at most one class is the default."""
    description: str = ""
    """When to use the class, for people."""
    preemption_policy: str | None = None
    """PreemptLowerPriority, or Never for pods that wait without displacing others."""
