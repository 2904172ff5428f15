"""Pod Security by labels of the namespace: Kubernetes' standards `baseline` and `restricted`, in its words.

``policy.py`` reads the labels, ``checks.py`` has what the standards forbid and since which version, ``judging.py`` is
what the strategies of pods, workloads and namespaces call. Namespaces without such labels cost a lookup.
"""
