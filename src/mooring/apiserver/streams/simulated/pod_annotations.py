"""Read the pod annotations that control containers on simulated nodes.

    metadata:
      annotations:
        simulation.mooring.dev/logs: |                 # what every container logs, line by line
          listening on :8080
        simulation.mooring.dev/logs.sidecar: ready     # what one container logs
        simulation.mooring.dev/log-seconds: "2"        # between two lines; 0 if not said: all when it starts
        simulation.mooring.dev/log-repeat: "true"      # repeat after the last line
        simulation.mooring.dev/exec: |                 # what commands answer; the first that matches counts
          - {command: "psql *", stdout: "1 row\n"}
          - {command: "cat /nowhere", stderr: "no such file\n", exitCode: 1}
        simulation.mooring.dev/files: |                # what `cat`, `ls` and `tar` (kubectl cp) find
          /etc/app.conf: "debug: true\n"
        simulation.mooring.dev/http: hello             # what every port answers

A malformed value is an error in the response to the client.
"""

import math
import re
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from mooring.api import errors, yaml_documents
from mooring.api.core_v1 import Pod
from mooring.api.json_tree import DecodeError
from mooring.api.simulation import PREFIX

T = TypeVar("T")
FILES = f"{PREFIX}files"
_MOST_BYTES = 256 * 1024
_SHORTEST_REPEAT = 0.01
_MOST_RULES = 1000
_MOST_PATTERNS = 16 * 1024
_LONGEST_COMMAND = 4096
_SIGNS = re.compile(r"([*?])")


class DeclaredCommand(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """An item of the annotation `exec`: a pattern with `*` and `?`, and the output for commands that match it."""

    command: str
    container: str = ""
    """The container that the item applies to; empty for every container."""
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    seconds: float = 0.0

    def is_for_command(self, container: str, command: str) -> bool:
        """Return whether the item applies to a container and its pattern matches the whole command."""
        return self.container in {"", container} and _matches(self.command, command)


class DeclaredLog(msgspec.Struct, frozen=True):
    """The log lines and timing that a pod's annotations declare; without lines, the default log is used."""

    lines: tuple[str, ...] | None = None
    seconds: float = 0.0
    repeat: bool = False


def read_declared_log(pod: Pod, container: str) -> DeclaredLog:
    """Return the log that a pod's annotations declare for a container; raise BadRequest for a malformed one."""
    annotations = pod.metadata.annotations
    text = annotations.get(f"{PREFIX}logs.{container}", annotations.get(f"{PREFIX}logs"))
    seconds = _parse_seconds(annotations, "log-seconds")
    repeat = annotations.get(f"{PREFIX}log-repeat") == "true"
    if repeat and seconds < _SHORTEST_REPEAT:
        raise _make_annotation_error("log-repeat", f"it needs {PREFIX}log-seconds of at least {_SHORTEST_REPEAT:g}")
    lines = None if text is None else tuple(text.removesuffix("\n").split("\n")) if text else ()
    return DeclaredLog(lines, seconds, repeat and bool(lines))


def find_declared_command(pod: Pod, container: str, words: tuple[str, ...]) -> DeclaredCommand | None:
    """Return the first item of a pod's `exec` annotation that matches a command; None if none does.

    Raise BadRequest for a malformed annotation. Call this in a thread, because matching may take 0.3 s.
    """
    rules = _parse_annotation(pod.metadata.annotations, "exec", list[DeclaredCommand]) or []
    if len(rules) > _MOST_RULES or sum(len(rule.command) for rule in rules) > _MOST_PATTERNS:
        why = f"it has more than {_MOST_RULES} rules, or more than {_MOST_PATTERNS} characters in their commands"
        raise _make_annotation_error("exec", why)
    for rule in rules:
        if not 0 <= rule.exit_code <= 255 or not 0 <= rule.seconds <= 86400:
            raise _make_annotation_error("exec", "an exitCode is a number from 0 to 255, and seconds are at most a day")
    line = " ".join(words)
    if len(line) > _LONGEST_COMMAND:
        return None
    return next((rule for rule in rules if rule.is_for_command(container, line)), None)


def _matches(pattern: str, text: str) -> bool:
    """Return whether a pattern with `*` and `?` matches a whole text, in time proportional to the lengths' product."""
    import re2  # noqa: PLC0415 - loads long and is needed rarely

    options = re2.Options()
    options.log_errors = False
    signs = {"*": "(?s:.*)", "?": "(?s:.)"}
    expression = "".join(signs.get(part) or re2.escape(part) for part in _SIGNS.split(pattern))
    try:
        return re2.compile(expression, options).fullmatch(text) is not None
    except re2.error:
        return False  # too large for RE2


def read_declared_files(pod: Pod) -> dict[str, str]:
    """Return the text files that a pod's annotation gives its containers, by path."""
    return _parse_annotation(pod.metadata.annotations, "files", dict[str, str]) or {}


def read_declared_http_body(pod: Pod) -> str | None:
    """Return the HTTP response body that a pod's annotation declares for its ports; None without annotation."""
    return pod.metadata.annotations.get(f"{PREFIX}http")


def _parse_seconds(annotations: Mapping[str, str], name: str) -> float:
    text = annotations.get(PREFIX + name, "0")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1e6:
        raise _make_annotation_error(name, f"{text!r} is not a number from 0 to 1000000")
    return number


def _parse_annotation(annotations: Mapping[str, str], name: str, shape: type[T]) -> T | None:
    text = annotations.get(PREFIX + name)
    if not text:
        return None
    try:
        documents = yaml_documents.read(text, _MOST_BYTES)
        return msgspec.convert(documents[0].tree, shape) if documents else None
    except (DecodeError, msgspec.ValidationError) as error:
        raise _make_annotation_error(name, str(error)) from None


def _make_annotation_error(name: str, why: str) -> errors.BadRequest:
    return errors.bad_request(f"the pod's annotation {PREFIX}{name} cannot be used: {why}")
