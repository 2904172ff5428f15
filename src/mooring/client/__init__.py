"""How components talk to an API server: a typed client, informers, and what controllers are built from.

    client = connect(kubeconfig, user_agent=user_agent("mooring-scheduler", "1.37"))
    pod = await client.get(core_v1.Pod, "web", namespace="default")
    informers = Informers(client)
    pods = informers.of(core_v1.Pod)

| Module | What is there |
|---|---|
| ``client.py`` | `Client`: every verb for every kind; `watch.py` is its stream of events |
| ``transport.py`` | what a transport is; ``in_process.py`` and ``https.py`` are the two there are |
| ``kubeconfig.py``, ``credentials.py``, ``connect.py`` | from a kubeconfig to a client |
| ``informer.py``, ``cache.py`` | the objects of a kind, kept up to date, with handlers and indexes |
| ``workqueue.py``, ``backoff.py`` | what to work on next, and when to try again |
| ``leader_election.py``, ``events.py`` | one leader among several instances; events for people |
| ``bulk_call.py``, ``bulk_binding.py``, ``bulk_claims.py`` | many writes in one call, where the server offers it |
| ``errors.py`` | what can go wrong on the way; what the server says is in ``mooring.api.errors`` |

Read next: ``client.py``, then ``informer.py``.
"""

from mooring.client.backoff import Backoff
from mooring.client.bulk_binding import BulkBinding
from mooring.client.bulk_claims import BulkClaims
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
from mooring.client.leader_election import LeaderElector, LeaseTimes
from mooring.client.watch import Watch, WatchEvent
from mooring.client.wire import Listing
from mooring.client.workqueue import WorkQueue

__all__ = [
    "Backoff",
    "BulkBinding",
    "BulkClaims",
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
