"""Programs of this machine, run for containers of simulated nodes whose images a file names (`mooring up --programs`).

| Module | What is there |
|---|---|
| ``file.py`` | the file: which image is which program |
| ``pods.py`` | `ProgramPods`, which ``simulated_nodes/pods.py`` hands pods to |
| ``world.py`` | what all pods share |
| ``pod.py`` | `ProgramPod`: the life of one pod, and its status |
| ``container.py`` | one container of it: runs, restarts, probes |
| ``process.py`` | one run: a process, its log and its end |
| ``sandbox.py`` | the file system that a process sees, as arguments of the tools that make it |
| ``network.py`` | a network for each pod, or this machine's |
| ``volumes.py`` | volumes as folders |
| ``variables.py`` | the variables of a container |
| ``probes.py`` | commands, HTTP requests and connections that tell how a container is |
| ``certificates.py`` | certificates for pods |

Nothing here is loaded by a server that was started without the option. docs/programs.md is for those who use it.
"""
