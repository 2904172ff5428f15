"""Logs, commands, forwarded ports and proxied requests: what goes through the API server to a node and is not stored.

| Module | What is there |
|---|---|
| ``streams.py`` | `Streams.handle`, which the edge calls: finds the pod, the container and the node |
| ``questions.py`` | what is asked, read from the query: `LogOptions`, `CommandOptions`, which container |
| ``kubelet.py`` | `Kubelet`, what a node answers: the interface of the two below |
| ``kubelets.py`` | which of the two answers for a node |
| ``real/`` | kubelets of machines: an HTTP client that passes upgraded connections through |
| ``simulated/`` | kubelets of simulated nodes: answers from the annotations of pods |

A response that has left HTTP owns its connection (``messages/connection.py`` beside this package) until it ends.
"""
