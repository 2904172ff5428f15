"""Allocate devices to pods (dynamic resource allocation with structured parameters).

    claims       the ResourceClaims of a pod and their requests
    devices      one device, and whether a CEL expression selects it
    inventory    all published devices, by pool and by the nodes that can use them, with their taints
    allocated    the devices in use, by allocated claims and by allocations that are not written yet
    allocator    the search for devices on one node for all claims of a pod
    memo         search results, cached for pods with the same requests
    writing      the allocation of a claim, and the writes to claims
    readiness    waiting for devices that a driver must prepare

Read next: ``plugins/dynamic_resources.py``, then ``allocator.py``.
"""
