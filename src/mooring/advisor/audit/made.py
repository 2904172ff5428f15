"""What controllers make from an object: pods from templates, Jobs from CronJobs, claims from claim templates.

Called by ``outcomes.py``, which asks admission about them, and by ``rehearsal.py``, which asks a server.
"""

from typing import NamedTuple

from mooring.advisor.lint import specs
from mooring.api import apps_v1, batch_v1
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodTemplate, PodTemplateSpec
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.states import controller_of


class Made(NamedTuple):
    """An object that a controller would create, and where its fields stand in the object that it is made from."""

    object: Resource
    here: str
    """A path in what is made: `spec`."""
    there: str
    """The path of the same thing in what it is made from: `spec.template.spec`."""
    words: str
    """What people call what is made: `pods`."""

    def path(self, field: str) -> str:
        """Translate a path in the created object to the path in its source."""
        return f"{self.there}{field[len(self.here) :]}" if field.startswith(self.here) else field


def made_from(obj: Resource) -> Made | None:
    """Return what a controller creates from an object; None if nothing."""
    namespace, name = obj.metadata.namespace, obj.metadata.name
    if isinstance(obj, batch_v1.CronJob):
        template = obj.spec.job_template
        job = batch_v1.Job(metadata=_metadata(template.metadata, namespace, name), spec=copy_of(template.spec))
        return Made(job, "spec", "spec.jobTemplate.spec", "Jobs")
    if isinstance(obj, ResourceClaimTemplate):
        claim = ResourceClaim(metadata=_metadata(obj.spec.metadata, namespace, name), spec=copy_of(obj.spec.spec))
        return Made(claim, "spec", "spec.spec", "claims")
    template_spec = _template(obj)
    at = specs.pod_spec(obj)
    if template_spec is None or at is None:
        return None
    pod = Pod(metadata=_metadata(template_spec.metadata, namespace, name), spec=copy_of(template_spec.spec))
    return Made(pod, "spec", at.path, "pods")


def _template(obj: Resource) -> PodTemplateSpec | None:
    if isinstance(obj, PodTemplate) or specs.pod_spec(obj) is None or isinstance(obj, Pod):
        return None
    return obj.spec.template  # type: ignore[attr-defined,no-any-return] # all other kinds with pods have one


def _metadata(template: ObjectMeta, namespace: str, name: str) -> ObjectMeta:
    made = copy_of(template)
    made.name, made.generate_name, made.namespace = "", f"{name[:40]}-", namespace
    return made


def is_over(obj: Resource) -> str:
    """Why nothing is made from an object any more; empty if something may be."""
    if isinstance(obj, apps_v1.ReplicaSet) and obj.spec.replicas == 0:
        owner = controller_of(obj.metadata)
        if owner is not None:
            return f"an old revision of {owner.kind} {owner.name}; going back to it would be refused"
    if isinstance(obj, batch_v1.Job):
        ended = next(
            (c for c in obj.status.conditions if c.type in ("Complete", "Failed") and c.status == "True"), None
        )
        if ended is not None:
            return f"the Job has ended ({ended.type})"
    return ""
