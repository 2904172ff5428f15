"""Talk to an API server: a typed client, informers, and what controllers are built from.

    client = connect(kubeconfig, user_agent=user_agent("mooring-scheduler", "1.37"))
    pod = await client.get(core_v1.Pod, "web", namespace="default")
    informers = Informers(client)
    pods = informers.of(core_v1.Pod)

| Module | What is there |
|---|---|
| ``client.py`` | `Client`: every verb for every kind; `watch.py` is its stream of events |
| ``transport.py`` | the interface of transports; ``in_process.py``, ``https.py`` and ``batching.py`` implement it |
| ``kubeconfig.py``, ``credentials.py``, ``connect.py`` | from a kubeconfig to a client |
| ``informer.py``, ``cache.py`` | the objects of a kind, kept up to date, with handlers and indexes |
| ``workqueue.py`` | what a controller works on next, and when it tries again |
| ``leader_election.py``, ``events.py`` | one leader among several instances; events for people |
| ``bulk.py`` | many bindings at once |
| ``errors.py`` | errors of the transport; those of the server are in ``mooring.api.errors`` |

Read next: ``client.py``, then ``informer.py``.
"""

from mooring.client.bulk import BulkBinding
from mooring.client.cache import Change, Index, key_of
from mooring.client.client import Client, PatchType
from mooring.client.connect import connect, user_agent
from mooring.client.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    CredentialsError,
    DeadlineError,
    DisconnectedError,
    NotLeaderError,
    TransportError,
)
from mooring.client.events import EventRecorder
from mooring.client.informer import Informer, Informers
from mooring.client.leader_election import LeaderElection, LeaderElector, LeaseTimes
from mooring.client.watch import Watch, WatchEvent
from mooring.client.wire import Listing
from mooring.client.workqueue import Backoff, WorkQueue

__all__ = [
    "Backoff",
    "BulkBinding",
    "Change",
    "Client",
    "ClientError",
    "ConfigError",
    "ConnectError",
    "CredentialsError",
    "DeadlineError",
    "DisconnectedError",
    "EventRecorder",
    "Index",
    "Informer",
    "Informers",
    "LeaderElection",
    "LeaderElector",
    "LeaseTimes",
    "Listing",
    "NotLeaderError",
    "PatchType",
    "TransportError",
    "Watch",
    "WatchEvent",
    "WorkQueue",
    "connect",
    "key_of",
    "user_agent",
]
