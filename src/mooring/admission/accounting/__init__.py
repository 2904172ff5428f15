"""Compute resource usage of objects and enforce ResourceQuotas, with the semantics of Kubernetes' quota evaluators.

`evaluators.py` computes the usage of one object; `enforcement.py` checks a write against a quota. Nothing here reads or
writes a cluster: ``apiserver/registry/quota/accounting.py`` does, and the advisor calls the same functions.
"""
