"""Read the query parameters of logs, exec, attach and port-forward, with Kubernetes' names and errors."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

import msgspec

from mooring.api import errors, times
from mooring.api.core_v1 import Pod
from mooring.api.field_errors import FieldError, forbidden, invalid
from mooring.api.field_path import Path
from mooring.apiserver.messages.http import Request

T = TypeVar("T")
_MOST_PORTS = 64


class LogOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The parameters of a log request: which part (previous, tail, since, limit), timestamps, follow, insecure.

    Their names as fields are those of the kubelet's parameters, except `insecure`.
    """

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    insecure: bool = False
    """Whether the kubelet's certificate is not verified."""


def read_log_options(request: Request, pod: str) -> LogOptions:
    """Return a log request's options. Raise BadRequest if one cannot be parsed, Invalid if its value is refused."""
    options = LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        since_seconds=_parse_parameter(request, "sinceSeconds", _parse_whole_number),
        since_time=_parse_parameter(request, "sinceTime", times.parse),
        tail_lines=_parse_parameter(request, "tailLines", _parse_whole_number),
        limit_bytes=_parse_parameter(request, "limitBytes", _parse_whole_number),
        insecure=request.flag("insecureSkipTLSVerifyBackend"),
    )
    wrong = [*_check_options(options)]
    if request.parameter("stream"):
        wrong.append(forbidden(Path("stream"), "may not be specified"))
    if wrong:
        raise errors.invalid("PodLogOptions", pod, wrong)
    return options


def _check_options(options: LogOptions) -> Iterator[FieldError]:
    if options.tail_lines is not None and options.tail_lines < 0:
        yield invalid(Path("tailLines"), options.tail_lines, "must be greater than or equal to 0")
    if options.limit_bytes is not None and options.limit_bytes < 1:
        yield invalid(Path("limitBytes"), options.limit_bytes, "must be greater than 0")
    if options.since_seconds is not None and options.since_time is not None:
        yield forbidden(Path(""), "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif options.since_seconds is not None and options.since_seconds < 1:
        yield invalid(Path("sinceSeconds"), options.since_seconds, "must be greater than 0")


def _parse_parameter(request: Request, name: str, parse: Callable[[str], T]) -> T | None:
    text = request.parameter(name)
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise errors.bad_request(f"the parameter {name} cannot be used: {error}") from None


def _parse_whole_number(text: str) -> int:
    number = int(text) if len(text) <= 20 else 2**63
    if not -(2**63) <= number < 2**63:
        raise ValueError("it does not fit into 64 bits")
    return number


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command of an exec or attach request, and which of stdin, stdout, stderr and a terminal it uses."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


def read_command_options(request: Request) -> CommandOptions:
    """Return the options of an exec or attach request; raise BadRequest if it requests no stream."""
    options = CommandOptions(
        command=tuple(request.query.get("command", ())),
        stdin=request.flag("stdin"),
        stdout=request.flag("stdout"),
        stderr=request.flag("stderr") and not request.flag("tty"),  # a terminal has one output
        tty=request.flag("tty"),
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return options


def read_ports(request: Request) -> list[int]:
    """Return the ports in a port-forward request's query; empty if named later, in the stream. Raise BadRequest."""
    texts = [text for value in request.query.get("ports", ()) for text in value.split(",") if text]
    if len(texts) > _MOST_PORTS:
        raise errors.bad_request(f"at most {_MOST_PORTS} ports can be forwarded at once")
    try:
        found = [int(text) for text in texts]
    except ValueError:
        raise errors.bad_request(f"the parameter ports has {texts}, which are not all numbers") from None
    for port in found:
        if not 0 < port < 65536:
            raise errors.bad_request(f"{port} is not a port: they go from 1 to 65535")
    return found


def find_container_name(request: Request, pod: Pod) -> str:
    """Return the requested container, or the pod's only one; raise BadRequest if it is unknown or ambiguous."""
    spec, name = pod.spec, request.parameter("container")
    names = [each.name for each in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]
    if name:
        if name not in names:
            raise errors.bad_request(f"container {name} is not valid for pod {pod.metadata.name}")
        return name
    if len(spec.containers) == 1:
        return spec.containers[0].name
    asked = f"a container name must be specified for pod {pod.metadata.name}"
    raise errors.bad_request(f"{asked}, choose one of: [{' '.join(names)}]" if names else asked)
