"""Pods created one by one over HTTPS: every pod different, from 300 templates, or identical except for the name.

python -m benchmarks creates
KUBE_APISERVER=https://127.0.0.1:7443 TOKEN=admintoken python -m benchmarks creates     beside a kube-apiserver

Both servers get the same requests on 32 connections, by turns; the ratio is of the medians by the clock.
"""

import json
import os
import ssl
import statistics
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from benchmarks.apiserver import _PODS, _pod, _Server
from benchmarks.bare_client import answered, computed, connected, request

_AT_ONCE, _REQUESTS, _TURNS = 32, 1000, 3
_SORTS = {"distinct": 0, "300 templates": 300, "identical": 1}


def _body(number: int, templates: int) -> bytes:
    """Return the pod with a number; its template is the number modulo the number of templates."""
    pod = json.loads(_pod(f"pod-{number}"))
    template = number % templates if templates else number
    container = pod["spec"]["containers"][0]
    container["image"] = f"registry.example/app-{template}:1.2.{template % 100}"
    container["env"] = [{"name": f"SETTING_{each}_{template}", "value": f"{template} {each}"} for each in range(4)]
    container["resources"]["requests"]["cpu"] = f"{template % 900 + 100}m"
    pod["spec"]["tolerations"] = [{"key": "sla", "operator": "Exists"}]
    pod["metadata"]["labels"]["app"] = f"web-{template}"
    return json.dumps(pod).encode()


def _kube() -> Any:
    """Return the kube-apiserver that the environment names, or None."""
    if "KUBE_APISERVER" not in os.environ:
        return None
    address, tls = urlsplit(os.environ["KUBE_APISERVER"]), ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return SimpleNamespace(host=address.hostname, port=address.port, tls=tls, token=os.environ.get("TOKEN", ""))


def _asked(server: Any, bodies: list[bytes]) -> list[bytes]:
    token = f"authorization: Bearer {server.token}\r\n".encode() if getattr(server, "token", "") else b""
    return [request("POST", _PODS, body).replace(b"host: x\r\n", b"host: x\r\n" + token) for body in bodies]


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ours = _Server(Path(directory))
        try:
            _measure(ours, _kube())
        finally:
            ours.stop()


def _measure(ours: _Server, theirs: Any) -> None:
    connections = {id(each): [connected(each) for _ in range(_AT_ONCE)] for each in (ours, theirs) if each}
    first = 0
    for name, templates in _SORTS.items():
        rates: dict[int, list[float]] = {key: [] for key in connections}
        spent: list[float] = []
        for _ in range(_TURNS):
            bodies = [_body(first + number, templates) for number in range(_REQUESTS)]
            first += _REQUESTS
            for server in (ours, theirs):
                if server is None:
                    continue
                before = computed(ours.pid)
                rates[id(server)].append(_REQUESTS / answered(connections[id(server)], _asked(server, bodies)))
                if server is ours:
                    spent.append((computed(ours.pid) - before) / _REQUESTS * 1e6)
        own = statistics.median(rates[id(ours)])
        line = f"{name:<15} {own:6,.0f}/s, {min(spent):4.0f} µs of the processor"
        if theirs:
            other = statistics.median(rates[id(theirs)])
            line += f"; kube-apiserver {other:6,.0f}/s: ratio {own / other:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
