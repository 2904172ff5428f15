"""The checks of the Pod Security levels `baseline` and `restricted`, with their rules by Kubernetes version.

A rule takes a pod or pod template and returns a violation or None. The checks of a level are in the order of
Kubernetes' messages: by name, those of `baseline` first.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import msgspec

from mooring.admission.pod_security.policy import BASELINE, RESTRICTED
from mooring.api.core_v1 import Container, Pod, PodSpec, PodTemplateSpec
from mooring.api.core_v1.container import AppArmorProfile, LifecycleHandler, Probe, SeccompProfile, SecurityContext
from mooring.api.core_v1.pod import PodSecurityContext
from mooring.api.core_v1.pod_volume import Volume
from mooring.api.quoting import go_quote

Subject = Pod | PodTemplateSpec
Context = SecurityContext | PodSecurityContext
_NO_CONTEXT = SecurityContext()
_NO_POD_CONTEXT = PodSecurityContext()
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")
_ALL = "ALL"
_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37 = _SYSCTLS_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_VOLUME_FIELDS = [(each.name, each.encode_name) for each in msgspec.structs.fields(Volume) if each.name != "name"]


class Violation(msgspec.Struct, frozen=True):
    """A violation of a Pod Security check: a short reason, and the detail that names the containers."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


Rule = Callable[[Subject], Violation | None]


def _quote_and_join(items: list[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _format_names(noun: str, items: list[str]) -> str:
    return f"{_pluralize(noun, items)} {_quote_and_join(items)}"


def _pluralize(noun: str, items: list[str]) -> str:
    return noun if len(items) == 1 else f"{noun}s"


def _use_or_uses(items: list[str]) -> str:
    return "uses" if len(items) == 1 else "use"


def _list_containers(spec: PodSpec) -> Iterator[tuple[Container, SecurityContext]]:
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        yield container, container.security_context or _NO_CONTEXT


def _list_violating_containers(spec: PodSpec, is_bad: Callable[[SecurityContext], bool]) -> list[str]:
    return [container.name for container, context in _list_containers(spec) if is_bad(context)]


def _get_pod_context(spec: PodSpec) -> PodSecurityContext:
    return spec.security_context or _NO_POD_CONTEXT


def _list_violators(spec: PodSpec, is_bad: Callable[[Context], bool]) -> list[str]:
    setters = ["pod"] if is_bad(_get_pod_context(spec)) else []
    containers = _list_violating_containers(spec, is_bad)
    return [*setters, _format_names("container", containers)] if containers else setters


def _build_container_rule(reason: str, is_bad: Callable[[SecurityContext], bool], requirement: str) -> Rule:
    """Return a rule that reports containers whose security context `is_bad`; `requirement` ends the message."""

    def check(pod: Subject) -> Violation | None:
        names = _list_violating_containers(pod.spec, is_bad)
        return Violation(reason, f"{_format_names('container', names)} must {requirement}") if names else None

    return check


def _build_context_rule(reason: str, is_bad: Callable[[Context], bool], requirement: str) -> Rule:
    """Return a rule that reports the pod or containers whose security context `is_bad`, with a `requirement`."""

    def check(pod: Subject) -> Violation | None:
        setters = _list_violators(pod.spec, is_bad)
        return Violation(reason, f"{' and '.join(setters)} must {requirement}") if setters else None

    return check


def _list_security_contexts(spec: PodSpec) -> list[Context]:
    return [_get_pod_context(spec), *(context for _, context in _list_containers(spec))]


def _except_on_windows(rule: Rule) -> Rule:
    return lambda pod: None if pod.spec.os is not None and pod.spec.os.name == "windows" else rule(pod)


def _except_in_user_namespace(rule: Rule) -> Rule:
    return lambda pod: None if pod.spec.host_users is False else rule(pod)


def _find_forbidden_profiles(spec: PodSpec, attribute: str) -> tuple[list[str], list[str]]:
    """Return which pod or containers set forbidden AppArmor or seccomp profiles (`attribute`), and their types."""

    def get_forbidden_type(context: Context) -> str | None:
        profile: AppArmorProfile | SeccompProfile | None = getattr(context, attribute)
        return profile.type if profile is not None and profile.type not in _PROFILES else None

    types = {kind for context in _list_security_contexts(spec) if (kind := get_forbidden_type(context)) is not None}
    return _list_violators(spec, lambda context: get_forbidden_type(context) is not None), sorted(types)


def _check_app_armor(pod: Subject) -> Violation | None:
    setters, values = _find_forbidden_profiles(pod.spec, "app_armor_profile")
    annotations = sorted(
        f"{key}={go_quote(value)}"
        for key, value in pod.metadata.annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        setters.append(_pluralize("annotation", annotations))
        values += annotations
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quote_and_join(values)}"
    return Violation(_pluralize("forbidden AppArmor profile", values), detail)


def _check_added_capabilities(
    pod: Subject, allowed: frozenset[str] = _DEFAULT_CAPABILITIES, reason: str = "non-default capabilities"
) -> Violation | None:
    spec = pod.spec

    def get_forbidden_capabilities(context: SecurityContext) -> set[str]:
        return set() if context.capabilities is None else set(context.capabilities.add) - allowed

    names = _list_violating_containers(spec, lambda context: bool(get_forbidden_capabilities(context)))
    if not names:
        return None
    values = sorted(set().union(*(get_forbidden_capabilities(context) for _, context in _list_containers(spec))))
    what = f"{_quote_and_join(values)} in securityContext.capabilities.add"
    return Violation(reason, f"{_format_names('container', names)} must not include {what}")


def _check_host_namespaces(pod: Subject) -> Violation | None:
    shared = (("hostNetwork", pod.spec.host_network), ("hostPID", pod.spec.host_pid), ("hostIPC", pod.spec.host_ipc))
    found = [f"{name}=true" for name, is_shared in shared if is_shared]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _check_host_paths(pod: Subject) -> Violation | None:
    found = [volume.name for volume in pod.spec.volumes if volume.host_path is not None]
    return Violation("hostPath volumes", _format_names("volume", found)) if found else None


def _check_host_ports(pod: Subject) -> Violation | None:
    found = {
        container.name: [str(port.host_port) for port in container.ports if port.host_port]
        for container, _ in _list_containers(pod.spec)
    }
    names = [name for name, ports in found.items() if ports]
    ports = sorted({port for ports in found.values() for port in ports})
    what = f"{_pluralize('hostPort', ports)} {', '.join(ports)}"
    return Violation("hostPort", f"{_format_names('container', names)} {_use_or_uses(names)} {what}") if names else None


def _check_probe_hosts(pod: Subject) -> Violation | None:
    found = {container.name: _list_probe_hosts(container) for container, _ in _list_containers(pod.spec)}
    names = sorted(name for name, hosts in found.items() if hosts)
    hosts = sorted(set().union(*found.values()))
    what = _format_names("probe or lifecycle host", hosts)
    detail = f"{_format_names('container', names)} {_use_or_uses(names)} {what}"
    return Violation("probe or lifecycle host", detail) if names else None


def _list_probe_hosts(container: Container) -> set[str]:
    handlers: list[Probe | LifecycleHandler | None] = [
        container.liveness_probe,
        container.readiness_probe,
        container.startup_probe,
    ]
    if container.lifecycle is not None:
        handlers += [container.lifecycle.post_start, container.lifecycle.pre_stop]
    return {
        action.host
        for handler in handlers
        if handler is not None
        for action in (handler.http_get, handler.tcp_socket)
        if action is not None and action.host
    }


def _check_proc_mount(pod: Subject) -> Violation | None:
    def is_bad(context: SecurityContext) -> bool:
        return context.proc_mount not in (None, "Default")

    names = _list_violating_containers(pod.spec, is_bad)
    values = sorted({context.proc_mount or "" for _, context in _list_containers(pod.spec) if is_bad(context)})
    detail = f"{_format_names('container', names)} must not set securityContext.procMount to {_quote_and_join(values)}"
    return Violation("procMount", detail) if names else None


def _check_se_linux(types: frozenset[str], pod: Subject) -> Violation | None:
    def is_bad(context: Context) -> bool:
        options = context.se_linux_options
        return options is not None and bool(options.type not in types or options.user or options.role)

    setters = _list_violators(pod.spec, is_bad)
    if not setters:
        return None
    given = [each.se_linux_options for each in _list_security_contexts(pod.spec) if each.se_linux_options is not None]
    wrong = sorted({options.type for options in given} - types)
    said = [_format_names("type", wrong)] if wrong else []
    said += ["user may not be set"] if any(options.user for options in given) else []
    said += ["role may not be set"] if any(options.role for options in given) else []
    detail = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}"
    return Violation("seLinuxOptions", detail)


def _check_seccomp_annotations(pod: Subject) -> Violation | None:
    keys = [_SECCOMP_OF_POD, *(_SECCOMP_OF_CONTAINER + container.name for container, _ in _list_containers(pod.spec))]
    given = [(key, pod.metadata.annotations[key]) for key in keys if key in pod.metadata.annotations]
    found = sorted(
        f"{key}={go_quote(value)}"
        for key, value in given
        if value not in ("runtime/default", "docker/default") and not value.startswith("localhost/")
    )
    detail = f"forbidden {_pluralize('annotation', found)} {', '.join(found)}"
    return Violation("seccompProfile", detail) if found else None


def _check_seccomp(pod: Subject) -> Violation | None:
    setters, values = _find_forbidden_profiles(pod.spec, "seccomp_profile")
    what = f"securityContext.seccompProfile.type to {_quote_and_join(values)}"
    return Violation("seccompProfile", f"{' and '.join(setters)} must not set {what}") if setters else None


def _check_sysctls(allowed: frozenset[str], pod: Subject) -> Violation | None:
    found = [each.name for each in _get_pod_context(pod.spec).sysctls if each.name not in allowed]
    return Violation("forbidden sysctls", ", ".join(found)) if found else None


def _check_no_capabilities(pod: Subject) -> Violation | None:
    reason = "unrestricted capabilities"
    names = _list_violating_containers(
        pod.spec, lambda context: context.capabilities is None or _ALL not in context.capabilities.drop
    )
    details = (
        [f'{_format_names("container", names)} must set securityContext.capabilities.drop=["ALL"]'] if names else []
    )
    added = _check_added_capabilities(pod, frozenset({"NET_BIND_SERVICE"}), reason)
    details += [added.detail] if added else []
    return Violation(reason, "; ".join(details)) if details else None


def _check_volume_types(pod: Subject) -> Violation | None:
    types = {volume.name: _get_volume_type(volume) for volume in pod.spec.volumes}
    names = [name for name, kind in types.items() if kind not in _VOLUMES]
    kinds = sorted(set(types.values()) - _VOLUMES)
    detail = f"{_format_names('volume', names)} {_use_or_uses(names)} {_format_names('restricted volume type', kinds)}"
    return Violation("restricted volume types", detail) if names else None


def _get_volume_type(volume: Volume) -> str:
    return next((shown for name, shown in _VOLUME_FIELDS if getattr(volume, name) is not None), "unknown")


def _check_non_root(pod: Subject) -> Violation | None:
    reason = "runAsNonRoot != true"
    setters = _list_violators(pod.spec, lambda context: context.run_as_non_root is False)
    if setters:
        return Violation(reason, f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    if _get_pod_context(pod.spec).run_as_non_root:
        return None
    names = _list_violating_containers(pod.spec, lambda context: context.run_as_non_root is None)
    detail = f"pod or {_format_names('container', names)} must set securityContext.runAsNonRoot=true"
    return Violation(reason, detail) if names else None


def _check_seccomp_set(pod: Subject) -> Violation | None:
    wrong = _check_seccomp(pod)
    if wrong is not None or _get_pod_context(pod.spec).seccomp_profile is not None:
        return wrong
    names = _list_violating_containers(pod.spec, lambda context: context.seccomp_profile is None)
    what = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_format_names('container', names)} must set {what}") if names else None


_privileged = _build_container_rule(
    "privileged", lambda context: context.privileged is True, "not set securityContext.privileged=true"
)
_escalation = _build_container_rule(
    "allowPrivilegeEscalation != false",
    lambda context: context.allow_privilege_escalation is not False,
    "set securityContext.allowPrivilegeEscalation=false",
)
_host_process = _build_context_rule(
    "hostProcess",
    lambda context: context.windows_options is not None and context.windows_options.host_process is True,
    "not set securityContext.windowsOptions.hostProcess=true",
)
_not_user_0 = _build_context_rule("runAsUser=0", lambda context: context.run_as_user == 0, "not set runAsUser=0")


class Check(msgspec.Struct, frozen=True):
    """A check of a Pod Security level: its rule by the minor version that introduced it, and the check it replaces."""

    name: str
    rules: dict[int, Rule]
    instead_of: str = ""

    def find_rule(self, minor: int) -> Rule | None:
        since = max((version for version in self.rules if version <= minor), default=None)
        return None if since is None else self.rules[since]


_BASELINE = (
    Check("appArmorProfile", {0: _check_app_armor}),
    Check("capabilities_baseline", {0: _check_added_capabilities}),
    Check("hostNamespaces", {0: _check_host_namespaces}),
    Check("hostPathVolumes", {0: _check_host_paths}),
    Check("hostPorts", {0: _check_host_ports}),
    Check("hostProbesAndHostLifecycle", {34: _check_probe_hosts}),
    Check("privileged", {0: _privileged}),
    Check("procMount", {0: _check_proc_mount, 35: _except_in_user_namespace(_check_proc_mount)}),
    Check(
        "seLinuxOptions",
        {
            0: partial(_check_se_linux, _SELINUX_TYPES),
            31: partial(_check_se_linux, _SELINUX_TYPES | {"container_engine_t"}),
        },
    ),
    Check("seccompProfile_baseline", {0: _check_seccomp_annotations, 19: _check_seccomp}),
    Check(
        "sysctls",
        {
            0: partial(_check_sysctls, _SYSCTLS),
            27: partial(_check_sysctls, _SYSCTLS_27),
            29: partial(_check_sysctls, _SYSCTLS_29),
            32: partial(_check_sysctls, _SYSCTLS_32),
            37: partial(_check_sysctls, _SYSCTLS_37),
        },
    ),
    Check("windowsHostProcess", {0: _host_process}),
)
_RESTRICTED = (
    Check("allowPrivilegeEscalation", {8: _escalation, 25: _except_on_windows(_escalation)}),
    Check(
        "capabilities_restricted",
        {22: _check_no_capabilities, 25: _except_on_windows(_check_no_capabilities)},
        instead_of="capabilities_baseline",
    ),
    Check("procMount_restricted", {35: _check_proc_mount}, instead_of="procMount"),
    Check("restrictedVolumes", {0: _check_volume_types}, instead_of="hostPathVolumes"),
    Check("runAsNonRoot", {0: _check_non_root, 35: _except_in_user_namespace(_check_non_root)}),
    Check("runAsUser", {23: _not_user_0, 35: _except_in_user_namespace(_not_user_0)}),
    Check(
        "seccompProfile_restricted",
        {19: _check_seccomp_set, 25: _except_on_windows(_check_seccomp_set)},
        instead_of="seccompProfile_baseline",
    ),
)
NEWEST = max(version for check in (*_BASELINE, *_RESTRICTED) for version in check.rules)
"""The newest Kubernetes minor version that changed a Pod Security rule."""


@lru_cache(maxsize=2 * (NEWEST + 1))
def list_pod_security_rules(level: str, minor: int) -> tuple[Rule, ...]:
    """Return the rules of a Pod Security level at a Kubernetes minor version, in the order of Kubernetes' messages."""
    if level not in (BASELINE, RESTRICTED):
        return ()
    stricter = [check for check in _RESTRICTED if level == RESTRICTED and check.find_rule(minor)]
    needless = {check.instead_of for check in stricter}
    checks = [check for check in _BASELINE if check.name not in needless] + stricter
    return tuple(rule for check in checks if (rule := check.find_rule(minor)) is not None)
