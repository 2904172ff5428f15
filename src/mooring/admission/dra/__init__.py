"""Admission of `resource.k8s.io`: claims and their templates, slices, device classes and taint rules.

``claim.py`` and ``slice.py`` are where to begin; ``names.py``, ``taints.py`` and ``requests.py`` hold the rules that
they share. Objects come here in the shape of v1, whichever version the client wrote.
"""
