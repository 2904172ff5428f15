"""Cluster IPs and node ports of Services: each is allocated once, also where several servers share a store.

`ServiceAllocation` is what the handlers call when a Service is written (``allocation.py``). A cluster IP is taken by
creating its IPAddress object, which only one can do (``addresses.py``); node ports are bits of one object that is
replaced by compare-and-swap (``ports.py``). What a crash left behind is put right when a server starts, and every three
minutes (``repair.py``).
"""

from mooring.apiserver.registry.services.allocation import ServiceAllocation
from mooring.apiserver.registry.services.repair import Repair

__all__ = ["Repair", "ServiceAllocation"]
