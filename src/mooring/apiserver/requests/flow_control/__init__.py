"""Priority of requests: which FlowSchema a request belongs to, and the FlowSchemas and levels that every cluster has.

`classification.py` finds the schema of a request, which clients are told in the headers of the answer. `keeping.py`
creates what is mandatory and suggested, keeps it, and writes the status. What limits requests is ``edge/limits.py``.
"""
