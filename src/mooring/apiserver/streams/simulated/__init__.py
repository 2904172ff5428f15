"""The kubelet of simulated nodes: logs, commands and ports of containers, computed from their pods.

| Module | Content |
|---|---|
| ``kubelet.py`` | `SimulatedKubelet`, the `Kubelet` of all simulated nodes |
| ``pod_annotations.py`` | the annotations of pods |
| ``container.py`` | the runs of a container, from its status |
| ``logs.py`` | log lines as a function of time |
| ``commands.py`` | the output of commands, declared in annotations or computed by ``mooring.shell`` |
| ``terminal.py`` | standard input and output of a command, with or without a terminal |
| ``spdy.py``, ``../websocket.py`` | the protocols of upgraded connections |
| ``remote_command.py``, ``port_forward.py`` | exec, attach, and port-forward with the HTTP responses of ports |

Nothing is executed or stored: at the same time, every server gives the same response to a request.
"""
