"""The objects of a cluster at one moment, from any source; all advice is computed from a snapshot.

    snapshot = await live(client)                       # Mooring or any Kubernetes, page by page
    snapshot = dump([Path("cluster.yaml")])             # the output of `kubectl get … -o yaml`, or manifests
    snapshot = data_directory(Path("~/.mooring"))       # our own store, also while a server uses it
    engine(snapshot).schedule(pod)

Read next: ``objects.py`` for the type; ``from_server.py``, ``from_files.py`` and ``from_store.py`` read snapshots,
``to_file.py`` writes one; ``engines.py`` loads one into the scheduler's engine.
"""

from mooring.advisor.snapshot.engines import engine
from mooring.advisor.snapshot.from_files import dump
from mooring.advisor.snapshot.from_server import live
from mooring.advisor.snapshot.from_store import data_directory
from mooring.advisor.snapshot.objects import Note, RawObject, Snapshot, SnapshotError

__all__ = ["Note", "RawObject", "Snapshot", "SnapshotError", "data_directory", "dump", "engine", "live"]
