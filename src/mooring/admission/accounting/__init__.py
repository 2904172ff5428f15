"""What the objects of a namespace use, and whether its ResourceQuotas leave room for more.

Kubernetes' quota evaluators and its ResourceQuota admission, in their words. `evaluators.py` finds the evaluator of a
kind, `pods.py`, `claims.py` and `counts.py` are the evaluators, and `judging.py` judges a write by a quota. Nothing
here reads or writes a cluster: the API server does (``apiserver/registry/quota/accounting.py``), and advice calls
the same functions about what somebody is about to do.
"""
