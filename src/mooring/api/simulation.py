"""Annotations of simulated nodes that several packages read: which nodes are simulated, and which simulate a failure.

The controllers (``controllers/simulated_nodes``) play the kubelets of these nodes towards the API; the API server
(``apiserver/streams/simulated``) serves their logs and exec.
"""

from mooring.api.core_v1 import Node

PREFIX = "simulation.mooring.dev/"
NODE = f"{PREFIX}node"
FAILURE = f"{PREFIX}failure"
UNREACHABLE, NOT_READY = "unreachable", "not-ready"


def is_simulated(node: Node) -> bool:
    return node.metadata.annotations.get(NODE) == "true"


def is_unreachable(node: Node) -> bool:
    return node.metadata.annotations.get(FAILURE) == UNREACHABLE
