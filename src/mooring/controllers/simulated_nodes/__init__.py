"""Nodes without machines: they register, send heartbeats and run pods by rules.

Every Node with the annotation `simulation.mooring.dev/node: "true"` is simulated, whether `create_nodes` or a user
created it. Annotations of pods say what they do (``commands.py``). The controllers are in ``nodes.py`` and ``pods.py``.
"""
