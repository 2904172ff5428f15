"""Kubelets of simulated nodes: what containers log and commands answer, from the annotations of their pods.

| Module | What is there |
|---|---|
| ``kubelet.py`` | `SimulatedKubelet`, the `Kubelet` of all simulated nodes |
| ``rules.py`` | the annotations, read |
| ``container.py`` | a container as its status shows it: does it run, since when |
| ``logs.py`` | log lines as a function of time |
| ``commands.py`` | what commands do: a rule answers, or the shell that runs nothing (``mooring.shell``) |
| ``terminal.py`` | standard input and output of a command, with or without a terminal |
| ``websocket.py``, ``spdy.py``, ``spdy_channels.py`` | the two protocols that clients speak after HTTP |
| ``remote_command.py``, ``port_forward.py`` | the two conversations over these channels |
| ``canned_http.py`` | what a port of a pod answers |

Nothing is executed and nothing is kept: the same question at the same moment has the same answer on every server.
"""
