"""Nodes without machines: they register, send heartbeats and run pods by rules.

Every Node with the annotation `simulation.mooring.dev/node: "true"` is simulated, whether `create_nodes` or a user
created it. Annotations of pods say what they do (``rules.py``).

| Module | Content |
|---|---|
| ``rules.py`` | annotations of pods and nodes |
| ``templates.py`` | Nodes from a number or a file |
| ``nodes.py`` | `SimulatedNodes`: status, Leases, failure on demand |
| ``pods.py`` | `SimulatedPods`: what the kubelets of these nodes do to pods |
| ``pod_steps.py``, ``pod_status.py`` | the next step of a pod, and its status |
| ``commands.py`` | the effect of containers' commands |
| ``node_admission.py`` | whether a node admits a pod that was not scheduled |
| ``addresses.py`` | addresses of nodes and pods |
"""

from mooring.controllers.simulated_nodes.nodes import SimulatedNodes
from mooring.controllers.simulated_nodes.pods import SimulatedPods
from mooring.controllers.simulated_nodes.templates import (
    TemplateError,
    as_simulated,
    create_nodes,
    numbered,
    read_templates,
)

__all__ = [
    "SimulatedNodes",
    "SimulatedPods",
    "TemplateError",
    "as_simulated",
    "create_nodes",
    "numbered",
    "read_templates",
]
