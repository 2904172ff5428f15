"""The objects of a cluster at one moment, wherever they come from: what every question of the advisor is asked about.

    snapshot = await live(client)                      # Mooring or any Kubernetes, page by page
    snapshot = dump([Path("cluster.yaml")])            # what `kubectl get … -o yaml` printed, or manifests
    snapshot = data_directory(Path("~/.mooring"))      # our own store, also while a server runs on it
    engine(snapshot).schedule(pod)

Read next: ``objects.py`` for what a snapshot is; ``from_server.py``, ``from_files.py`` and ``from_store.py`` for how
one is made, ``to_file.py`` for how it is written; ``engines.py`` for the scheduler's engine over it.
"""

from mooring.advisor.snapshot.engines import engine
from mooring.advisor.snapshot.from_files import dump
from mooring.advisor.snapshot.from_server import live
from mooring.advisor.snapshot.from_store import data_directory
from mooring.advisor.snapshot.objects import Note, RawObject, Snapshot, SnapshotError

__all__ = ["Note", "RawObject", "Snapshot", "SnapshotError", "data_directory", "dump", "engine", "live"]
