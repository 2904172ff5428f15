"""Nodes without machines: they register, send heartbeats and run pods by rules.

Every Node with the annotation `simulation.mooring.dev/node: "true"` is simulated, whether `create_nodes` or a user
created it. Annotations of pods say what they do (``commands.py``).

| Module | Content |
|---|---|
| ``templates.py`` | Nodes from a number or a file |
| ``nodes.py`` | `SimulatedNodes`: status, Leases, failure on demand |
| ``pods.py`` | `SimulatedPods`: what the kubelets of these nodes do to pods |
| ``pod_steps.py``, ``pod_status.py`` | the next step of a pod, and its status |
| ``commands.py`` | annotations of pods, and the effect of containers' commands |
| ``addresses.py`` | addresses of nodes and pods |
"""
