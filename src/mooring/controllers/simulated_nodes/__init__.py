"""Nodes without machines: they register, send heartbeats and run pods by rules. A laptop shows a large cluster so.

Every Node with the annotation `simulation.mooring.dev/node: "true"` is one, whoever created it: `create_nodes` from a
number or a template file, or people with kubectl. What pods do is said in their annotations (``rules.py``).

| Module | What is there |
|---|---|
| ``rules.py`` | the annotations of pods and nodes, read |
| ``templates.py`` | Nodes from a number or from a file |
| ``nodes.py`` | `SimulatedNodes`: status, Leases, failure on demand |
| ``pods.py`` | `SimulatedPods`: what the kubelets of these nodes do to pods |
| ``pod_steps.py``, ``pod_status.py`` | what a pod does next, and how its status says so |
| ``commands.py`` | what containers do, as far as their commands tell |
| ``node_admission.py`` | whether a node takes a pod that was not scheduled |
| ``addresses.py`` | addresses of nodes and pods |
"""

from mooring.controllers.simulated_nodes.nodes import SimulatedNodes
from mooring.controllers.simulated_nodes.pods import SimulatedPods
from mooring.controllers.simulated_nodes.templates import TemplateError, create_nodes, numbered, read_templates

__all__ = ["SimulatedNodes", "SimulatedPods", "TemplateError", "create_nodes", "numbered", "read_templates"]
