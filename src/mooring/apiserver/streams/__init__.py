"""Forward requests to kubelets: logs, exec, attach, port-forward and proxies.

| Module | Content |
|---|---|
| ``streams.py`` | `Streams.handle` finds the pod, the container and the node of a request |
| ``query_options.py`` | the query parameters: `LogOptions`, `CommandOptions`, the container |
| ``kubelet.py`` | `Kubelet`, the interface of the two below, and `Kubelets`, which finds the one of a node |
| ``real/`` | real kubelets: an HTTP client that relays upgraded connections |
| ``simulated/`` | kubelets of simulated nodes, which respond from the annotations of pods |

The response to an upgrade owns its connection (``messages/connection.py``) until it ends.
"""
