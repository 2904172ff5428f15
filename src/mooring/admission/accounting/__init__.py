"""Compute resource usage of objects and enforce ResourceQuotas, with the semantics of Kubernetes' quota evaluators.

`evaluators.py` finds the evaluator of a kind and has that of Services; `pods.py` and `claims.py` implement the others.
`enforcement.py` checks a write against a quota. Nothing here reads or writes a cluster:
``apiserver/registry/quota/accounting.py`` does, and advice calls the same functions.
"""
