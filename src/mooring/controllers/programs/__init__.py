"""Run local programs for containers of simulated nodes, by image (`mooring up --programs`).

| Module | Content |
|---|---|
| ``file.py`` | the file: which image is which program |
| ``pods.py`` | `ProgramPods`, to which ``simulated_nodes/pods.py`` passes pods; `ProgramPod`: one pod and its status |
| ``container.py`` | one container: runs, restarts, probes |
| ``process.py`` | one run: a process and its log |
| ``sandbox.py``, ``mounts.py`` | the file system of a process with a `root` |
| ``network.py`` | a network for each pod, or this machine's |
| ``volumes.py`` | volumes as folders, and certificates for pods |

Not imported without the option. docs/programs.md is for its users.
"""
