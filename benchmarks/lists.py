"""What `kubectl get pods` asks of the server: 50,000 pods as a table and as JSON, in chunks of 500 and at once.

python -m benchmarks lists
PODS=10000 python -m benchmarks lists

The server is a process of its own, over HTTPS, on a data directory that is filled beforehand. A bare client takes what
comes; kubectl, if installed, is measured too. Lists are asked for twice: rows of tables are remembered.
"""

import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.apiserver import _PODS, _Connection, _pod, _Server
from benchmarks.bare_client import connected, request, taken
from benchmarks.controllers import _cpu_seconds
from mooring.store.kv import Put
from mooring.store.sqlite import SqliteStore

PODS = int(os.environ.get("PODS", "50000"))
_CHUNK = 500
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_SELECTED = {
    "all by a label": "labelSelector=app%3Dweb",
    "none by a label": "labelSelector=app%3Dother",
    "those of a node": "fieldSelector=spec.nodeName%3Dnode-77",
}
_STATUS: dict[str, Any] = {
    "phase": "Running",
    "hostIP": "10.0.0.1",
    "podIP": "10.1.1.1",
    "podIPs": [{"ip": "10.1.1.1"}],
    "startTime": "2026-01-01T00:00:00Z",
    "conditions": [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ],
    "containerStatuses": [
        {
            "name": "c",
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "ready": True,
            "restartCount": 0,
            "image": "registry.example/app:1.2.3",
            "imageID": f"registry.example/app@sha256:{'0' * 64}",
            "containerID": f"containerd://{'1' * 64}",
        }
    ],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        uvloop.run(_fill(folder))
        server = _Server(folder)
        try:
            _measure(server)
            _kubectl(server, folder / "admin.kubeconfig")
        finally:
            server.stop()


async def _fill(folder: Path) -> None:
    """One pod that went the usual way, and so many others like it, each with what is its own."""
    server = _Server(folder)
    try:
        async with await _Connection.open(server) as connection:
            await connection.send(
                "POST", _PODS, _pod("web-0").replace(b'"spec": {', b'"spec": {"nodeName": "node-0", ')
            )
            patch = json.dumps({"status": _STATUS}).encode()
            await connection.send("PATCH", f"{_PODS}/web-0/status", patch, "application/merge-patch+json")
    finally:
        server.stop()
    store = await SqliteStore.open(folder)
    kv = await store.get("/registry/pods/default/web-0")
    assert kv is not None
    for begin in range(1, PODS, 1000):
        numbers = range(begin, min(begin + 1000, PODS))
        await store.write_all(
            [Put(f"/registry/pods/default/web-{number}", _another(kv.value, number)) for number in numbers]
        )
    await store.close()


def _another(pod: bytes, number: int) -> bytes:
    """Return the pod with a number: a hundred share a creation second; nodes and addresses rotate."""
    metadata = json.loads(pod)["metadata"]
    since = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number // 100)
    own = {
        "web-0": f"web-{number}",
        metadata["uid"]: str(uuid.UUID(int=number)),
        metadata["creationTimestamp"]: since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "node-0": f"node-{number % 5000}",
        "10.1.1.1": f"10.{1 + number // 62500}.{number // 250 % 250}.{number % 250}",
        "1" * 64: f"{number:064x}",
    }
    for old, new in own.items():
        pod = pod.replace(old.encode(), new.encode())
    return pod


def _measure(server: _Server) -> None:
    print(f"{'':<34}{'first byte':>12}{'all':>12}{'server':>12}{'bytes':>14}")
    for form, accept in (("table", _TABLE), ("JSON", "application/json")):
        for how, limit in (("in chunks", _CHUNK), ("at once", 0)):
            for time_of in ("first time", "again"):
                _tell(server, f"{form} {how}, {time_of}", accept, limit)
    for which, query in _SELECTED.items():
        _tell(server, f"JSON in chunks, {which}", "application/json", _CHUNK, query)


def _tell(server: _Server, name: str, accept: str, limit: int, query: str = "") -> None:
    began = _cpu_seconds(server.pid)
    first, total, size = _listed(server, accept, limit, query)
    used = (_cpu_seconds(server.pid) - began) * 1000
    print(f"{name:<34}{first:>9.1f} ms{total:>9.0f} ms{used:>9.0f} ms{size:>14,}", flush=True)


def _listed(server: _Server, accept: str, limit: int, query: str = "") -> tuple[float, float, int]:
    """Milliseconds until the first byte and the last, and how many there were."""
    with connected(server) as connection:
        began, first, size, token = time.perf_counter(), 0.0, 0, ""
        while True:
            page = f"&limit={limit}&continue={token}" if limit else ""
            heard, received, begin = taken(connection, request("GET", f"{_PODS}?{query}{page}", accept=accept))
            first = first or heard - began
            size += received
            found = begin.partition(b'"continue":"')[2].partition(b'"')[0] if limit else b""
            if not found:
                return first * 1000, (time.perf_counter() - began) * 1000, size
            token = found.decode()


def _kubectl(server: _Server, kubeconfig: Path) -> None:
    if not shutil.which("kubectl"):
        return
    for flags in ((), ("--chunk-size=0",)):
        before, began, used = (
            resource.getrusage(resource.RUSAGE_CHILDREN),
            time.perf_counter(),
            _cpu_seconds(server.pid),
        )
        subprocess.run(
            ["kubectl", "--kubeconfig", str(kubeconfig), "get", "pods", *flags], check=True, stdout=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        spent = (_cpu_seconds(server.pid) - used) * 1000
        taken = (time.perf_counter() - began) * 1000
        name = " ".join(("kubectl get pods", *flags))
        print(f"{name:<34}{'':>12}{taken:>9.0f} ms{spent:>9.0f} ms   (kubectl itself {own * 1000:.0f} ms)")


if __name__ == "__main__":
    main()
