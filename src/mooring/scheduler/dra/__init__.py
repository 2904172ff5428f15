"""Devices for pods (dynamic resource allocation with structured parameters): what there is, what is in use, and who can
have what.

    claims       the ResourceClaims of a pod, and what they ask for
    devices      one device, and whether an expression selects it
    inventory    all devices, by pool and by the nodes that can use them, with their taints
    allocated    what is in use, by claims that are allocated or about to be
    capacity     how much of a shared device a request takes
    constraints  what the devices of a claim must have in common
    allocator    the search: devices on one node for all claims of a pod
    memo         what was found, kept for pods that ask for the same
    results      the allocation as it is written into a claim's status
    writing      the writes
    readiness    waiting for devices that must be made ready

Read next: ``plugins/dynamic_resources.py``, then ``allocator.py``.
"""
