"""Validate probes and lifecycle hooks."""

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.admission import checks
from mooring.api import field_errors, names
from mooring.api.core_v1 import Container, Lifecycle, LifecycleHandler, PodSpec, Probe
from mooring.api.core_v1.container import ExecAction, GRPCAction, HTTPGetAction, SleepAction, TCPSocketAction
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")
_NAMED_SIGNALS = (
    "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS "
    "TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ"
)
_SIGNALS = tuple(
    sorted(
        {f"SIG{name}" for name in _NAMED_SIGNALS.split()}
        | {f"SIGRTMIN+{number}" for number in range(1, 16)}
        | {f"SIGRTMAX-{number}" for number in range(1, 15)}
    )
)
_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


class ProbeContext(msgspec.Struct, frozen=True):
    """The properties of a pod that validating its probes and lifecycle hooks needs: grace period, operating system."""

    grace_period: int | None
    os: str


def build_probe_context(spec: PodSpec) -> ProbeContext:
    return ProbeContext(spec.termination_grace_period_seconds, spec.os.name if spec.os is not None else "")


def validate_probes(container: Container, path: Path, context: ProbeContext) -> Errors:
    errors: Errors = []
    if container.lifecycle is not None:
        errors += _validate_lifecycle(container.lifecycle, path.child("lifecycle"), context)
    for name, probe in (
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if probe is not None:
            errors += _validate_probe(probe, path.child(name), context, readiness=name == "readinessProbe")
    return errors


def _validate_probe(probe: Probe, path: Path, context: ProbeContext, *, readiness: bool) -> Errors:
    errors = _validate_handler(probe, path, context)
    errors += checks.non_negative_fields(probe, path, *_NUMBERS)
    seconds, here = probe.termination_grace_period_seconds, path.child("terminationGracePeriodSeconds")
    errors += checks.positive(seconds, here, "must be greater than 0")
    if readiness:
        return errors + checks.invalid_if(seconds is not None, here, seconds, "must not be set for readinessProbes")
    threshold = probe.success_threshold
    return errors + checks.invalid_if(threshold != 1, path.child("successThreshold"), threshold, "must be 1")


def _validate_lifecycle(lifecycle: Lifecycle, path: Path, context: ProbeContext) -> Errors:
    errors: Errors = []
    if lifecycle.post_start is not None:
        errors += _validate_handler(lifecycle.post_start, path.child("postStart"), context)
    if lifecycle.pre_stop is not None:
        errors += _validate_handler(lifecycle.pre_stop, path.child("preStop"), context)
    if lifecycle.stop_signal is not None:
        errors += _validate_stop_signal(lifecycle.stop_signal, path.child("stopSignal"), context.os)
    return errors


def _validate_stop_signal(signal: str, path: Path, os: str) -> Errors:
    if not os:
        return [field_errors.forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    supported = _WINDOWS_SIGNALS if os == "windows" else _SIGNALS
    return checks.one_of(signal, supported, path)


def _validate_handler(handler: Probe | LifecycleHandler, path: Path, context: ProbeContext) -> Errors:
    errors: Errors = []
    found = False
    for attribute, (name, validate) in _ACTIONS.items():
        action: Any = getattr(handler, attribute, None)
        if action is None:
            continue
        if found:
            errors.append(field_errors.forbidden(path.child(name), "may not specify more than 1 handler type"))
        else:
            errors += validate(action, path.child(name), context)
        found = True
    return errors if found else [field_errors.required(path, "must specify a handler type")]


def _validate_exec_action(action: ExecAction, path: Path, _: ProbeContext) -> Errors:
    return [] if action.command else [field_errors.required(path.child("command"))]


def _validate_http_get_action(action: HTTPGetAction, path: Path, _: ProbeContext) -> Errors:
    errors = [] if action.path else [field_errors.required(path.child("path"))]
    errors += _validate_action_port(action.port, path)
    errors += checks.one_of(action.scheme, _SCHEMES, path.child("scheme"))
    for header in action.http_headers:
        errors += names.validate(path.child("httpHeaders"), header.name, names.http_header_name(header.name))
    return errors


def _validate_sleep_action(action: SleepAction, path: Path, context: ProbeContext) -> Errors:
    if context.grace_period is None or 0 <= action.seconds <= context.grace_period:
        return []
    detail = f"must be non-negative and less than terminationGracePeriodSeconds ({context.grace_period})"
    return [field_errors.invalid(path, action.seconds, detail)]


def _validate_socket_action(action: TCPSocketAction | GRPCAction, path: Path, _: ProbeContext) -> Errors:
    return _validate_action_port(action.port, path)


def _validate_action_port(port: int | str, path: Path) -> Errors:
    messages = names.port_name(port) if isinstance(port, str) else names.port_number(port)
    return [field_errors.invalid(path.child("port"), port, message) for message in messages]


_ACTIONS: dict[str, tuple[str, Callable[[Any, Path, ProbeContext], Errors]]] = {
    "exec": ("exec", _validate_exec_action),
    "http_get": ("httpGet", _validate_http_get_action),
    "tcp_socket": ("tcpSocket", _validate_socket_action),
    "grpc": ("grpc", _validate_socket_action),
    "sleep": ("sleep", _validate_sleep_action),
}
"""By attribute of a probe or lifecycle hook, the field's name and the function that validates the action."""
