"""Requests for `/statusz` and `/flagz`, for ``tools/record_requests.py``.

    PYTHONPATH=tests python -m conformance.recording.status_pages > requests.jsonl
    python tools/record_requests.py requests.jsonl --server https://127.0.0.1:6443 --token T > recorded.jsonl
    PYTHONPATH=tests python -m conformance.recording.status_pages recorded.jsonl > …/status-pages.jsonl

The last step leaves out what is not the same twice. Recorded from kube-apiserver v1.37.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from conformance.recording.namespace_rules import Tree

TYPED = "{};g=config.k8s.io;v={};as={}"
PLAIN = (
    "",
    "*/*",
    "text/*",
    "text/plain",
    "text/plain;charset=utf-8",
    "text/plain;q=0",
    "text/html",
    "application/*",
    "application/json",
    "application/yaml",
    "application/json, text/plain",
    "application/json, */*",
)
MEDIA_TYPES = (
    "application/json",
    "application/yaml",
    "application/cbor",
    "application/vnd.kubernetes.protobuf",
    "application/*",
    "text/plain",
    "text/*",
    "*/*",
)


def accepts(kind: str) -> Iterator[str]:
    """Yield what to ask for a page with."""
    yield from PLAIN
    yield from (TYPED.format(media, "v1beta1", kind) for media in MEDIA_TYPES)
    yield from (TYPED.format("application/json", version, kind) for version in ("v1", "v1alpha1"))
    yield TYPED.format("application/yaml", "v1alpha1", kind)
    yield TYPED.format("application/json", "v1beta1", "Other")
    yield f"application/json;g=config.k8s.io;as={kind}"
    typed = TYPED.format("application/json", "v1beta1", kind)
    yield from (f"{typed}, text/plain", f"text/plain, {typed}")
    yield from (f"{typed};q=0.1, text/plain", f"text/plain;q=0.1, {typed}")
    yield f"{TYPED.format('application/json', 'v9', kind)}, text/plain"
    yield f"{TYPED.format('application/json', 'v9', kind)}, {TYPED.format('application/json', 'v1alpha1', kind)}"
    yield f"{typed};pretty=0;unheard=of"


def requests() -> Iterator[Tree]:
    for path, kind in (("/statusz", "Statusz"), ("/flagz", "Flagz")):
        for accept in accepts(kind):
            yield {"id": f"{path} as {accept}", "method": "GET", "path": path, "accept": accept, "body": None}
        yield {"id": f"{path} written", "method": "POST", "path": path, "accept": "text/plain", "body": {}}


def said(content_type: str, text: str) -> Any:
    """Return the stable part of an answer: the start of a text, and everything else without times and flags."""
    if content_type.startswith("text/plain"):
        return text.splitlines()[:3]
    tree = yaml.safe_load(text)  # of which JSON is a part
    varying = ("startTime", "uptimeSeconds", "goVersion", "flags")
    return {key: type(value).__name__ if key in varying else value for key, value in tree.items()}


def without_what_varies(recorded: Path) -> Iterator[Tree]:
    for line in recorded.read_text().splitlines():
        case = json.loads(line)
        response = case["response"]
        response["body"] = said(response["content_type"], response.pop("text"))
        yield case


if __name__ == "__main__":
    shown = without_what_varies(Path(sys.argv[1])) if len(sys.argv) > 1 else requests()
    sys.stdout.writelines(json.dumps(each) + "\n" for each in shown)
