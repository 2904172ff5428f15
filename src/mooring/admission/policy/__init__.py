"""Admission policies in CEL: which requests they concern, what they allow, and what they change. All of it is pure.

`attributes` is a request as rules see it, `matching` decides whom a policy or webhook concerns, `conditions` what else
must hold. Read next: ``attributes.py``.
"""
