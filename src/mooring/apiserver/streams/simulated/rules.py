"""What annotations say about the containers of simulated nodes.

    metadata:
      annotations:
        simulation.mooring.dev/logs: |                 # what every container logs, line by line
          listening on :8080
        simulation.mooring.dev/logs.sidecar: ready     # what one container logs
        simulation.mooring.dev/log-seconds: "2"        # between two lines; 0 if not said: all when it starts
        simulation.mooring.dev/log-repeat: "true"      # begin anew after the last line
        simulation.mooring.dev/exec: |                 # what commands answer; the first that matches counts
          - {command: "psql *", stdout: "1 row\n"}
          - {command: "cat /nowhere", stderr: "no such file\n", exitCode: 1}
        simulation.mooring.dev/files: |                # what `cat`, `ls` and `tar` (kubectl cp) find
          /etc/app.conf: "debug: true\n"
        simulation.mooring.dev/http: hello             # what every port answers

A value that cannot be read is an error for whoever asks for what it is about.
"""

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
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


class CommandRule(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """What commands answer whose words, joined by spaces, fit a pattern with `*` and `?`."""

    command: str
    container: str = ""
    """Empty for every container."""
    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    seconds: float = 0.0
    """How long it takes."""

    def fits(self, container: str, words: tuple[str, ...]) -> bool:
        return self.container in {"", container} and fnmatchcase(" ".join(words), self.command)


class LogRule(msgspec.Struct, frozen=True):
    """What a container logs; None as lines for what containers log by default."""

    lines: tuple[str, ...] | None = None
    seconds: float = 0.0
    repeat: bool = False


def log_rule(pod: Pod, container: str) -> LogRule:
    annotations = pod.metadata.annotations
    text = annotations.get(f"{PREFIX}logs.{container}", annotations.get(f"{PREFIX}logs"))
    seconds = _seconds(annotations, "log-seconds")
    repeat = annotations.get(f"{PREFIX}log-repeat") == "true"
    if repeat and seconds < _SHORTEST_REPEAT:
        raise _unusable("log-repeat", f"it needs {PREFIX}log-seconds of at least {_SHORTEST_REPEAT:g}")
    lines = None if text is None else tuple(text.removesuffix("\n").split("\n")) if text else ()
    return LogRule(lines, seconds, repeat and bool(lines))


def command_rule(pod: Pod, container: str, words: tuple[str, ...]) -> CommandRule | None:
    """The rule that a command falls under."""
    rules = _tree(pod.metadata.annotations, "exec", list[CommandRule]) or []
    for rule in rules:
        if not 0 <= rule.exit_code <= 255 or not 0 <= rule.seconds <= 86400:
            raise _unusable("exec", "an exitCode is a number from 0 to 255, and seconds are at most a day")
    return next((rule for rule in rules if rule.fits(container, words)), None)


def files(pod: Pod) -> dict[str, str]:
    """The files of the pod's containers, by path."""
    return _tree(pod.metadata.annotations, "files", dict[str, str]) or {}


def http_body(pod: Pod) -> str | None:
    return pod.metadata.annotations.get(f"{PREFIX}http")


def _seconds(annotations: Mapping[str, str], name: str) -> float:
    text = annotations.get(PREFIX + name, "0")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1e6:
        raise _unusable(name, f"{text!r} is not a number from 0 to 1000000")
    return number


def _tree(annotations: Mapping[str, str], name: str, shape: type[T]) -> T | None:
    text = annotations.get(PREFIX + name)
    if not text:
        return None
    try:
        documents = yaml_documents.read(text, _MOST_BYTES)
        return msgspec.convert(documents[0].tree, shape) if documents else None
    except (DecodeError, msgspec.ValidationError) as error:
        raise _unusable(name, str(error)) from None


def _unusable(name: str, why: str) -> errors.BadRequest:
    return errors.bad_request(f"the pod's annotation {PREFIX}{name} cannot be used: {why}")
