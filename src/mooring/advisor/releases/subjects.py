"""An object of a snapshot for the release audit: its tree, its name, and the objects created from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mooring.advisor.audit.results import ObjectReference
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.snapshot import RawObject
from mooring.advisor.trees import as_list, as_mapping
from mooring.api.history import Served
from mooring.api.kinds import GroupVersion

_TEMPLATES = {
    "Deployment": "spec.template",
    "StatefulSet": "spec.template",
    "ReplicaSet": "spec.template",
    "ReplicationController": "spec.template",
    "DaemonSet": "spec.template",
    "Job": "spec.template",
    "CronJob": "spec.jobTemplate",
    "ResourceClaimTemplate": "spec.spec",
}
_MADE = {"CronJob": "Jobs", "ResourceClaimTemplate": "claims"}


@dataclass(frozen=True)
class ReleaseObject:
    """An object of a snapshot to audit, with the history of its kind over the releases."""

    raw: RawObject
    reference: ObjectReference
    served: Served | None
    """The history of its kind; None for kinds that are not part of Kubernetes."""

    @property
    def tree(self) -> dict[str, Any]:
        return as_mapping(self.raw.tree)

    @property
    def group(self) -> str:
        return GroupVersion.parse(self.raw.api_version).group

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        return as_mapping(self.tree.get("metadata"))

    def created_resource(self, path: str) -> str:
        """Return the resource, such as `pods`, that controllers create from this field; empty if it is no template."""
        template = _TEMPLATES.get(self.reference.kind) if self.served is not None else None
        return _MADE.get(self.reference.kind, "pods") if template and path.startswith(template) else ""

    @property
    def template_path(self) -> str:
        """Return the path of the pod template; empty if there is none."""
        template = "" if self.reference.kind == "ResourceClaimTemplate" else _TEMPLATES.get(self.reference.kind, "")
        return f"{template}.spec.template" if self.reference.kind == "CronJob" else template

    @property
    def is_over(self) -> bool:
        """Return whether controllers create nothing more from the object: a finished Job or pod, an old ReplicaSet."""
        kind, spec, status = self.reference.kind, as_mapping(self.tree.get("spec")), as_mapping(self.tree.get("status"))
        if kind == "ReplicaSet":
            return spec.get("replicas") == 0 and bool(self.reference.owner)
        if kind == "Job":
            conditions = status.get("conditions") or ()
            return any(as_mapping(each).get("type") in ("Complete", "Failed") for each in conditions)
        return kind == "Pod" and status.get("phase") in ("Succeeded", "Failed")

    def finding(
        self, effect: Effect, text: str, field: str = "apiVersion", value: str = "", severity: str = ""
    ) -> Finding:
        """Build a finding about the object; about its apiVersion if no field is given."""
        value = self.raw.api_version if field == "apiVersion" else value
        return Finding(object=self.reference, field=field, value=value, effect=effect, severity=severity, message=text)

    @property
    def managers(self) -> Iterator[tuple[str, str]]:
        """Yield the field managers of the object, each with the apiVersion that it wrote."""
        for entry in map(as_mapping, as_list(self.metadata.get("managedFields"))):
            yield str(entry.get("manager") or "unknown manager"), str(entry.get("apiVersion") or "")

    def is_default(self, path: str) -> bool:
        """Return whether no field manager owns a field, so that the server must have set it by default."""
        entries = as_list(self.metadata.get("managedFields"))
        steps = [step.partition("[")[0] for step in path.split(".")]
        return bool(entries) and not any(_owns_field(as_mapping(each).get("fieldsV1"), steps) for each in entries)


def _owns_field(fields: Any, steps: list[str]) -> bool:
    owned = as_mapping(fields)
    below = [value for key, value in owned.items() if key.startswith(("k:", "v:", "i:"))]
    if any(_owns_field(each, steps) for each in below):
        return True
    if f"f:{steps[0]}" not in owned:
        return False
    inner = as_mapping(owned[f"f:{steps[0]}"])
    return len(steps) == 1 or not any(key != "." for key in inner) or _owns_field(inner, steps[1:])
