"""`advisor.mooring.dev/v1`: questions that an API server with an advisor answers. Nothing of it is stored.

These types are what discovery and OpenAPI show. What is in an answer is described by the results of the advisor's
packages (``mooring.advisor.explain.results`` and so on), whose JSON it is; here it has no fixed shape.
"""

from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource

GROUP, VERSION = "advisor.mooring.dev", "v1"


class SchedulingExplanation(Resource):
    """Why the pod of that name is pending, or why it is where it is, and the smallest changes that would help."""


class Audit(Resource):
    """What breaks when versions or gates change, which query parameters say; its name is always `cluster`."""


class Simulation(Resource):
    """What would happen if: create one with a Scenario (see docs/simulate.md) and get where every pod would go."""


_EXPLANATIONS = "schedulingexplanations"
KINDS = (
    Kind(GROUP, VERSION, "SchedulingExplanation", SchedulingExplanation, _EXPLANATIONS, verbs=("get",)),
    Kind(GROUP, VERSION, "Audit", Audit, "audits", namespaced=False, verbs=("get",)),
    Kind(GROUP, VERSION, "Simulation", Simulation, "simulations", namespaced=False, verbs=("create",)),
)
"""For a server that has an advisor: beside the kinds that every server has."""
