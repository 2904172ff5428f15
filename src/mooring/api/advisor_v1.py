"""`advisor.mooring.dev/v1`: questions that an API server with an advisor answers. Nothing of it is stored.

These types are what discovery and OpenAPI show. What is in an answer is described by the results of the advisor's
packages (``mooring.advisor.explain.results`` and so on), whose JSON it is; here it has no fixed shape.
"""

from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource

GROUP, VERSION = "advisor.mooring.dev", "v1"


class SchedulingExplanation(Resource):
    """The explanation why the pod of this name is pending or on its node, and the smallest changes that help."""


class Audit(Resource):
    """The objects that break when versions or gates change, which query parameters give; always named `cluster`."""


class Simulation(Resource):
    """A what-if simulation: create one with a Scenario (see docs/simulate.md) to get the node of every pod."""


_EXPLANATIONS = "schedulingexplanations"
KINDS = (
    Kind(GROUP, VERSION, "SchedulingExplanation", SchedulingExplanation, _EXPLANATIONS, verbs=("get",)),
    Kind(GROUP, VERSION, "Audit", Audit, "audits", namespaced=False, verbs=("get",)),
    Kind(GROUP, VERSION, "Simulation", Simulation, "simulations", namespaced=False, verbs=("create",)),
)
"""For a server that has an advisor: beside the kinds that every server has."""
