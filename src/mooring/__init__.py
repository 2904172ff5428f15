"""Mooring: a Kubernetes-compatible scheduling control plane.

Where to start reading:

- ``ARCHITECTURE.md`` draws the layers; every package below is one of them, and may import only from those under it.
- ``mooring.base`` has versions and feature gates, ``mooring.api`` typed objects, ``mooring.cel`` the expression engine.
- ``mooring.constraints`` decides what matches, ``mooring.admission`` what may be written.
- ``mooring.cli`` has one file per command, and is the only place that puts components together.
"""

__version__ = "0.1.0"
