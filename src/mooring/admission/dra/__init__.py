"""Admission of `resource.k8s.io`: claims and their templates, slices, device classes and taint rules.

Start with ``claim.py`` and ``slice.py``; ``names.py``, ``taints.py`` and ``requests.py`` hold shared rules. Objects are
of version v1, whichever version the client wrote.
"""
