"""Change a pod's spec so that it meets the `restricted` Pod Security level."""

from mooring.api.core_v1 import Capabilities, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext

_ALLOWED_CAPABILITY = "NET_BIND_SERVICE"


def complying(spec: PodSpec) -> bool:
    """Remove every privilege that the restricted level forbids from a pod's spec; return False if impossible."""
    spec.host_network = spec.host_pid = spec.host_ipc = False
    spec.volumes = [each for each in spec.volumes if each.host_path is None]
    mounted = {each.name for each in spec.volumes}
    whole = spec.security_context or PodSecurityContext()
    whole.run_as_non_root = True
    whole.seccomp_profile = SeccompProfile(type="RuntimeDefault")
    whole.run_as_user = whole.run_as_user or None
    spec.security_context = whole
    for container in (*spec.containers, *spec.init_containers):
        context = container.security_context or SecurityContext()
        context.privileged = None
        context.allow_privilege_escalation = False
        context.run_as_non_root = None if context.run_as_non_root is False else context.run_as_non_root
        context.run_as_user = context.run_as_user or None
        context.seccomp_profile = None
        context.proc_mount = None
        added = context.capabilities.add if context.capabilities is not None else []
        context.capabilities = Capabilities(drop=["ALL"], add=[each for each in added if each == _ALLOWED_CAPABILITY])
        container.security_context = context
        container.volume_mounts = [each for each in container.volume_mounts if each.name in mounted]
        for port in container.ports:
            port.host_port = 0
    return True
