"""Requests recorded from Kubernetes' API server, admitted without a server."""

import argparse
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.replay import Result, UnreadableFileError, api

DATA = Path(__file__).parent / "data" / "api" / "requests.jsonl"


def replay(*words: str) -> Result:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    api.add_arguments(parser)
    return api.run(parser.parse_args(list(words)))


@pytest.fixture(scope="module")
def result() -> Result:
    return replay(str(DATA))


@pytest.mark.req("5471.2", "3633.2", "3633.6", "5471.5")
def test_every_recorded_create_is_answered_as_recorded(result: Result) -> None:
    assert result.failed == []
    assert result.passed > 200


@pytest.mark.req("N.10")
def test_kinds_of_the_newest_release_are_validated_as_by_its_server() -> None:
    """Recorded with tools/record_requests.py from kube-apiserver v1.37."""
    result = replay(str(DATA.with_name("kinds-of-1.37.jsonl")))
    assert result.failed == []
    assert result.passed > 100


def test_what_needs_a_server_is_left_out_by_name(result: Result) -> None:
    assert [case.split(":")[0] for case in result.left_out if "get/" not in case] == ["requests.jsonl pod-missingns"]


# -- comparison


def recorded(tmp_path: Path, change: Any, name: str = "tol-000") -> str:
    """Return a file with one of the recorded cases, after a change."""
    case = next(case for case in map(json.loads, DATA.read_text().splitlines()) if case["id"] == name)
    change(case)
    file = tmp_path / "changed.jsonl"
    file.write_text(json.dumps(case))
    return str(file)


@pytest.mark.parametrize(
    ("name", "path", "value", "problem"),
    [
        ("tol-000", ("response", "code"), 422, "code 201 instead of 422"),
        ("tol-000", ("response", "body", "spec", "priority"), 7, '"priority": 0'),
        ("tol-000", ("response", "body", "metadata", "labels"), {"a": "b"}, 'labels {} instead of {"a": "b"}'),
        ("tol-005", ("response", "body", "reason"), "Forbidden", "reason Invalid instead of Forbidden"),
        ("tol-005", ("response", "body", "details", "causes"), [], "causes: missing []"),
    ],
    ids=["code", "spec", "labels", "reason", "causes"],
)
def test_a_difference_is_reported(tmp_path: Path, name: str, path: tuple[str, ...], value: Any, problem: str) -> None:
    def change(case: Any) -> None:
        *steps, last = path
        for step in steps:
            case = case[step]
        case[last] = value

    [failure] = replay(recorded(tmp_path, change, name)).failed
    assert problem in failure


@pytest.mark.parametrize("text", ["{", "[]", '{"id": 1}', '{"id": 1, "response": {"code": "x"}}'], ids=repr)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(text)
    with pytest.raises(UnreadableFileError):
        replay(str(file))


# -- a server that runs


class Recording(BaseHTTPRequestHandler):
    """A server that answers what was recorded."""

    answers: dict[tuple[str, str, str], Any] = {}  # noqa: RUF012 - filled by the fixture
    tokens: list[str | None] = []  # noqa: RUF012 - as above
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(json.dumps(json.loads(body)))

    def do_GET(self) -> None:
        self.answer("null")

    def answer(self, body: str) -> None:
        self.tokens.append(self.headers["Authorization"])
        response = self.answers[self.command, self.path, body]
        text = response["body"] if isinstance(response["body"], str) else json.dumps(response["body"])
        self.send_response(response["code"])
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        pass


@pytest.fixture
def server() -> Iterator[str]:
    for case in map(json.loads, DATA.read_text().splitlines()):
        target = case["path"] + (f"?{case['query']}" if case.get("query") else "")
        Recording.answers[case["method"], target, json.dumps(case.get("body"))] = case["response"]
    running = ThreadingHTTPServer(("127.0.0.1", 0), Recording)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()


def test_requests_are_sent_to_a_server_as_recorded(server: str) -> None:
    result = replay(str(DATA), "--server", server, "--token", "secret")
    assert (result.failed, result.left_out) == ([], [])
    assert set(Recording.tokens) == {"Bearer secret"}


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://127.0.0.1:1"])
def test_a_server_that_cannot_be_reached_is_reported(url: str) -> None:
    with pytest.raises(UnreadableFileError, match=url):
        replay(str(DATA), "--server", url)
