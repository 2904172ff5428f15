"""Allocate cluster IPs and node ports of Services, each only once, also if several servers share a store.

The handlers call `ServiceAllocation` when a Service is written (``allocation.py``). A cluster IP is allocated by
creating its IPAddress object, which succeeds only once (``addresses.py``); node ports are bits of one object that is
replaced by compare-and-swap (``ports.py``). Leftovers of a crash are repaired when a server starts, and every three
minutes (``cluster/service_repair.py``).
"""
