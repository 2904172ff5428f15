"""Environment variables of a container, as far as its pod determines them, and `$(NAME)` references in commands.

Used by the simulation of containers: controllers compute how long commands run, the API server what they print.
"""

import re
from collections.abc import Mapping

from mooring.api.core_v1 import Container, EnvVar, EphemeralContainer, ObjectFieldSelector, Pod, ResourceFieldSelector
from mooring.api.quantity import Quantity

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][-A-Za-z0-9_.]*)\)")


class UnknownValueError(ValueError):
    """A value that only a kubelet could look up."""


def environment_of(pod: Pod, container: Container | EphemeralContainer) -> dict[str, str | None]:
    """Return a container's environment; a value that only a kubelet knows is None. Raise UnknownValueError."""
    if container.env_from:
        raise UnknownValueError("variables from elsewhere")
    found: dict[str, str | None] = {"HOSTNAME": pod.spec.hostname or pod.metadata.name}
    for variable in container.env:
        found[variable.name] = _value(pod, variable, found)
    return found


def _value(pod: Pod, variable: EnvVar, known: Mapping[str, str | None]) -> str | None:
    if variable.value_from is None:
        return expand_references(variable.value, known)
    reference = variable.value_from.field_ref
    return field_of(pod, reference) if reference is not None else None


def field_of(pod: Pod, reference: ObjectFieldSelector) -> str | None:
    """Return a field of the pod as a string; None for one that only a kubelet knows."""
    path, meta = reference.field_path, pod.metadata
    for name, entries in (("labels", meta.labels), ("annotations", meta.annotations)):
        if path.startswith(f"metadata.{name}['") and path.endswith("']"):
            return entries.get(path.partition("['")[2][:-2], "")
    return {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.podIP": pod.status.pod_ip,
        "status.podIPs": ",".join(each.ip for each in pod.status.pod_ips),
        "status.hostIP": pod.status.host_ip,
        "status.hostIPs": ",".join(each.ip for each in pod.status.host_ips),
    }.get(path)


def resource_of(
    pod: Pod, container: str, reference: ResourceFieldSelector, allocatable: Mapping[str, Quantity] | None = None
) -> str | None:
    """Return a container's request or limit in units of the divisor; by default the node's. None if unknown."""
    wanted = reference.container_name or container
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    found = next((each.resources for each in containers if each.name == wanted), None)
    which, _, resource = reference.resource.partition(".")
    if found is None or which not in {"limits", "requests"}:
        return None
    amount = (found.limits if which == "limits" else found.requests).get(resource)
    if amount is None and which == "limits":
        amount = (allocatable or {}).get(resource)
        if amount is None:
            return None
    amount = amount or Quantity(0)
    divisor = Quantity(1) if reference.divisor.is_zero() else reference.divisor
    if resource == "cpu":
        return str(-(-amount.milli_value() // divisor.milli_value()))
    return str(-(-amount.value() // divisor.value()))


def expand_references(text: str, variables: Mapping[str, str | None]) -> str:
    """Expand `$(NAME)` as Kubernetes does; unknown names stay. `$$` becomes `$`."""

    def put_in(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name = match[1]
        if name not in variables:
            return match[0]
        value = variables[name]
        if value is None:
            raise UnknownValueError(f"the variable {name}")
        return value

    return _REFERENCE.sub(put_in, text)
