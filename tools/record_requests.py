"""Sends requests to a Kubernetes API server and writes them down with its answers, for ``tests/conformance/data/api``.

    .venv/bin/python tools/record_requests.py requests.jsonl --server https://127.0.0.1:6443 --token T > recorded.jsonl

A line is a request as in the recordings themselves (`id`, `method`, `path`, `query`, `content_type`, `body`); an answer
that it has is replaced. Of a request with `accept` the type of the answer is written down, too, and its text. One with
`settles` is repeated until its answer has been the same for so many seconds. What changes from one recording to the
next (times, uids, managed fields) is left out.
"""

import argparse
import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_PASSING = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="requests, one a line")
    parser.add_argument("--server", required=True, metavar="URL")
    parser.add_argument("--token", required=True)
    arguments = parser.parse_args()
    for line in arguments.file.read_text().splitlines():
        case = json.loads(line)
        case["response"] = settled(case, arguments.server, arguments.token)
        sys.stdout.write(json.dumps(case) + "\n")


def settled(case: dict[str, Any], server: str, token: str) -> dict[str, Any]:
    """Return the answer of a server after its controllers have settled."""
    answer = ask(case, server, token)
    since = time.monotonic()
    while time.monotonic() - since < case.get("settles", 0):
        time.sleep(0.2)
        again = ask(case, server, token)
        if again != answer:
            answer, since = again, time.monotonic()
    return answer


def ask(case: dict[str, Any], server: str, token: str) -> dict[str, Any]:
    """Return the answer of a server; its certificate is not verified, because a server for comparison signs its own."""
    query = f"?{case['query']}" if case.get("query") else ""
    body = None if case.get("body") is None else json.dumps(case["body"]).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": case.get("content_type", "application/json")}
    request = urllib.request.Request(f"{server}{case['path']}{query}", body, headers, method=case["method"])  # noqa: S310 - the user's own server
    if "accept" in case:
        request.add_header("Accept", case["accept"])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        answer = urllib.request.urlopen(request, context=context)  # noqa: S310 - as above
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        body = answer.read()
    warnings = answer.headers.get_all("Warning") or []
    if "accept" in case:
        shown = {"content_type": answer.headers["Content-Type"], "text": body.decode()}
        return {"code": answer.status, "warnings": warnings, **shown}
    tree = json.loads(body)
    meta = tree.get("metadata", {})
    tree["metadata"] = {key: value for key, value in meta.items() if key not in _PASSING}
    return {"code": answer.status, "warnings": warnings, "body": tree}


if __name__ == "__main__":
    main()
