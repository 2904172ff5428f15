"""Run local programs for containers of simulated nodes, by image (`mooring up --programs`).

``simulated_nodes/pods.py`` passes pods to `ProgramPods` in ``pods.py``. Not imported without the option.
docs/programs.md is for its users.
"""
