"""The annotations of simulated nodes that several parts read: who is simulated, and who pretends to be dead.

The controllers (``controllers/simulated_nodes``) play the kubelets of these nodes towards the API, the API server
(``apiserver/streams/simulated``) plays them towards those who want logs or run commands. What each of them reads
besides stands there.
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
