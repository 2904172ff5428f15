"""Validate security contexts of pods and containers, and fields that an operating system does not support."""

import re
from collections.abc import Iterator

from mooring.admission import checks
from mooring.admission.volume_sources import validate_local_path
from mooring.api import field_errors, names
from mooring.api.core_v1 import Container, PodSecurityContext, PodSpec, SecurityContext
from mooring.api.core_v1.container import AppArmorProfile, SeccompProfile, WindowsSecurityContextOptions
from mooring.api.core_v1.pod import Sysctl
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_GROUP_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_GROUP_POLICIES = ("Merge", "Strict")
_SE_LINUX_POLICIES = ("MountOption", "Recursive")
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}"
_MAX_PROFILE_BYTES = 4095
_MAX_GMSA_KIB = 64
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NETBIOS = re.compile(r'[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}')
_WINDOWS_DNS = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*")
_USER_CHARACTERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_WINDOWS_POD = (
    "app_armor_profile",
    "se_linux_options",
    "seccomp_profile",
    "fs_group",
    "fs_group_change_policy",
    "sysctls",
    "run_as_user",
    "run_as_group",
    "supplemental_groups",
    "supplemental_groups_policy",
    "se_linux_change_policy",
)
_WINDOWS_SPEC = ("host_users", "host_pid", "host_ipc", "share_process_namespace")
_WINDOWS_CONTAINER = (
    "app_armor_profile",
    "se_linux_options",
    "seccomp_profile",
    "capabilities",
    "read_only_root_filesystem",
    "privileged",
    "allow_privilege_escalation",
    "proc_mount",
    "run_as_user",
    "run_as_group",
)


def iterate_containers(spec: PodSpec, path: Path) -> Iterator[tuple[Container, Path]]:
    """Yield all containers of a PodSpec with their field paths: init, regular, then ephemeral containers."""
    for name, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers):
            yield container, path.child(name).index(index)


def validate_pod_security(spec: PodSpec, context: PodSecurityContext, path: Path) -> Errors:
    errors: Errors = []
    for name, number in checks.select_fields(context, "fsGroup", "runAsUser", "runAsGroup"):
        errors += checks.optional(number, path.child(name), validate_user_id)
    errors += checks.validate_items(context.supplemental_groups, path.child("supplementalGroups"), validate_user_id)
    if context.sysctls:
        errors += _validate_sysctls(context.sysctls, spec, path.child("sysctls"))
    errors += checks.optional_one_of(
        context.fs_group_change_policy, _GROUP_CHANGE_POLICIES, path.child("fsGroupChangePolicy")
    )
    errors += checks.optional(context.seccomp_profile, path.child("seccompProfile"), _validate_seccomp)
    errors += checks.optional(context.windows_options, path.child("windowsOptions"), _validate_windows_options)
    errors += checks.optional(context.app_armor_profile, path.child("appArmorProfile"), _validate_app_armor)
    errors += checks.optional_one_of(
        context.supplemental_groups_policy, _GROUP_POLICIES, path.child("supplementalGroupsPolicy")
    )
    errors += checks.optional_one_of(
        context.se_linux_change_policy, _SE_LINUX_POLICIES, path.child("seLinuxChangePolicy")
    )
    return errors


def validate_user_id(number: int, path: Path) -> Errors:
    return [field_errors.invalid(path, number, problem) for problem in names.user_id(number)]


def _validate_sysctls(sysctls: list[Sysctl], spec: PodSpec, path: Path) -> Errors:
    errors = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        here = path.index(index).child("name")
        name = sysctl.name
        if not name:
            errors.append(field_errors.required(here))
        elif len(name) > 253 or not re.fullmatch(_SYSCTL, name):
            errors.append(
                field_errors.invalid(here, name, f"must have at most 253 characters and match regex ^{_SYSCTL}$")
            )
        elif name in seen:
            errors.append(field_errors.duplicate(here, name))
        dotted = name.replace("/", ".")
        if spec.host_network and dotted.startswith("net."):
            errors.append(field_errors.invalid(here, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.host_ipc and (
            dotted.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or dotted == "kernel.sem"
        ):
            errors.append(field_errors.invalid(here, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
    return errors


def validate_container_security(context: SecurityContext, path: Path, *, host_users: bool) -> Errors:
    errors: Errors = []
    for name, number in checks.select_fields(context, "runAsUser", "runAsGroup"):
        errors += checks.optional(number, path.child(name), validate_user_id)
    if context.proc_mount is not None:
        errors += checks.optional_one_of(context.proc_mount, ("Default", "Unmasked"), path.child("procMount"))
        if host_users and context.proc_mount == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            errors.append(field_errors.invalid(path.child("procMount"), context.proc_mount, detail))
    errors += checks.optional(context.seccomp_profile, path.child("seccompProfile"), _validate_seccomp)
    if context.allow_privilege_escalation is False:
        if context.privileged:
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(field_errors.invalid(path, context, detail))
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(field_errors.invalid(path, context, detail))
    errors += checks.optional(context.windows_options, path.child("windowsOptions"), _validate_windows_options)
    errors += checks.optional(context.app_armor_profile, path.child("appArmorProfile"), _validate_app_armor)
    return errors


def _validate_seccomp(profile: SeccompProfile, path: Path) -> Errors:
    here, given = path.child("localhostProfile"), profile.localhost_profile
    errors = checks.require(profile.type, path.child("type"), "type is required when seccompProfile is set")
    errors += checks.optional_one_of(profile.type or None, _PROFILE_TYPES, path.child("type"))
    if profile.type == "Localhost":
        errors += checks.require(given is not None, here, "must be set when seccomp type is Localhost")
        return errors + checks.optional(given, here, validate_local_path)
    return errors + checks.invalid_if(
        given is not None, here, profile, "can only be set when seccomp type is Localhost"
    )


def _validate_app_armor(profile: AppArmorProfile, path: Path) -> Errors:
    here, given = path.child("localhostProfile"), profile.localhost_profile
    if not profile.type:
        return [field_errors.required(path.child("type"), "type is required when appArmorProfile is set")]
    if profile.type not in _PROFILE_TYPES:
        return [field_errors.not_supported(path.child("type"), profile.type, _PROFILE_TYPES)]
    if profile.type != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if given is None else [field_errors.invalid(here, given, detail)]
    errors = []
    if given is not None and given != given.strip():
        errors.append(field_errors.invalid(here, given, "must not be padded with whitespace"))
    elif not given:
        errors.append(field_errors.required(here, "must be set when AppArmor type is Localhost"))
    if given is not None and len(given.encode(errors="surrogatepass")) > _MAX_PROFILE_BYTES:
        errors.append(field_errors.too_long(here, _MAX_PROFILE_BYTES))
    return errors


def _validate_windows_options(options: WindowsSecurityContextOptions, path: Path) -> Errors:
    errors: Errors = []
    name, spec, user = options.gmsa_credential_spec_name, options.gmsa_credential_spec, options.run_as_user_name
    errors += checks.optional_name(name, path.child("gmsaCredentialSpecName"), names.dns1123_subdomain)
    if spec is not None:
        here, detail = path.child("gmsaCredentialSpec"), f"gmsaCredentialSpec size must be under {_MAX_GMSA_KIB} KiB"
        errors += checks.invalid_if(not spec, here, spec, "gmsaCredentialSpec cannot be an empty string")
        is_large = len(spec.encode(errors="surrogatepass")) > _MAX_GMSA_KIB * 1024
        errors += checks.invalid_if(is_large, here, spec, detail)
    if user is not None:
        here = path.child("runAsUserName")
        errors += [
            field_errors.invalid(here, user, f"runAsUserName{problem}") for problem in _find_user_name_problems(user)
        ]
    return errors


def _find_user_name_problems(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if _CONTROL.search(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    problems = []
    if len(domain) >= 256:
        problems.append("'s Domain length must be under 256 characters")
    if backslash and not (_NETBIOS.fullmatch(domain) or _WINDOWS_DNS.fullmatch(domain)):
        problems.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("'s User cannot be empty")
    elif len(user) > 104:
        problems.append("'s User length must not be longer than 104 characters")
    if not user.strip(". "):
        problems.append("'s User cannot contain only periods or spaces")
    if _USER_CHARACTERS.search(user):
        problems.append("""'s User cannot contain the following characters: "/\\:;|=,+*?<>@[]""")
    return problems


def validate_host_process(spec: PodSpec, path: Path) -> Errors:
    """Return errors unless all containers of a pod, or none, are Windows host processes (with host network, if all)."""
    own = _get_host_process(spec.security_context)
    containers = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    if own is None and all(container.security_context is None for container in containers):
        return []
    errors: Errors = []
    total = host = 0
    for container, here in iterate_containers(spec, path):
        total += 1
        given = _get_host_process(container.security_context)
        if own is not None and given is not None and own != given:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(own).lower()}"
            field = here.child("securityContext", "windowsOptions", "hostProcess")
            errors.append(field_errors.invalid(field, given, detail))
        host += bool(own if given is None else given)
    if not host:
        return errors
    if host != total:
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(field_errors.invalid(path, "", detail))
    if not spec.host_network:
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(field_errors.invalid(path.child("hostNetwork"), False, detail))
    return errors


def _get_host_process(context: PodSecurityContext | SecurityContext | None) -> bool | None:
    options = context.windows_options if context is not None else None
    return options.host_process if options is not None else None


def validate_os(spec: PodSpec, name: str, path: Path) -> Errors:
    """Return errors for an unknown operating system `name`, and for fields in the spec that it does not support."""
    if not name:
        return [field_errors.required(path.child("os", "name"), "cannot be empty")]
    if name not in ("linux", "windows"):
        return [field_errors.not_supported(path.child("os"), name, ("linux", "windows"))]
    return _validate_linux_pod(spec, path) if name == "linux" else _validate_windows_pod(spec, path)


def _validate_linux_pod(spec: PodSpec, path: Path) -> Errors:
    detail = "windows options cannot be set for a linux pod"
    places = [
        (spec.security_context, path),
        *((item.security_context, at) for item, at in iterate_containers(spec, path)),
    ]
    return [
        field_errors.forbidden(at.child("securityContext", "windowsOptions"), detail)
        for context, at in places
        if context is not None and context.windows_options is not None
    ]


def _validate_windows_pod(spec: PodSpec, path: Path) -> Errors:
    errors = _forbid_windows_fields(spec.security_context, _WINDOWS_POD, path.child("securityContext"))
    errors += _forbid_windows_fields(spec, _WINDOWS_SPEC, path)
    for container, here in iterate_containers(spec, path):
        errors += _forbid_windows_fields(container.security_context, _WINDOWS_CONTAINER, here.child("securityContext"))
    return errors


def _forbid_windows_fields(
    holder: PodSpec | PodSecurityContext | SecurityContext | None, attributes: tuple[str, ...], path: Path
) -> Errors:
    if holder is None:
        return []
    blank = type(holder)()
    encoded = dict(zip(holder.__struct_fields__, holder.__struct_encode_fields__, strict=True))
    return [
        field_errors.forbidden(path.child(encoded[attribute]), "cannot be set for a windows pod")
        for attribute in attributes
        if getattr(holder, attribute) != getattr(blank, attribute)
    ]
