"""Pod Security admission by namespace labels: Kubernetes' standards `baseline` and `restricted`.

``policy.py`` parses the labels, ``checks.py`` has the checks by version, ``enforcement.py`` is called by the strategies
of pods, workloads and namespaces. Namespaces without such labels cost a lookup.
"""
