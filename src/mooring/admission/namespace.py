"""Default and validate Namespaces: created active with Kubernetes' finalizer, and labelled with their own name."""

from mooring.admission import checks, meta
from mooring.admission.pod_security.enforcement import admit_security_labels
from mooring.admission.strategy import Request, StatusStrategy, Strategy
from mooring.api import field_errors, names
from mooring.api.base import copy_of
from mooring.api.core_v1 import Namespace, NamespaceStatus
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
_PHASE = Path("status.Phase")
_FINALIZERS = Path("spec.finalizers")


class NamespaceStrategy(Strategy[Namespace]):
    has_generation = False

    def __init__(self) -> None:
        super().__init__({"finalize": FinalizeStrategy(self)})

    def name_check(self, name: str) -> names.Messages:
        return names.dns1123_label(name)

    def default(self, obj: Namespace) -> None:
        obj.status.phase = obj.status.phase or "Active"
        if obj.metadata.name:
            obj.metadata.labels[NAME_LABEL] = obj.metadata.name

    def prepare_for_create(self, obj: Namespace, request: Request) -> None:
        obj.status = NamespaceStatus(phase="Active")
        self.default(obj)  # the name may have been generated in the meantime
        if FINALIZER not in obj.spec.finalizers:
            obj.spec.finalizers.append(FINALIZER)

    def update_derived_names(self, obj: Namespace, taken: str) -> None:
        self.default(obj)

    def prepare_for_update(self, new: Namespace, old: Namespace, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        new.spec.finalizers = list(old.spec.finalizers)

    def validate(self, obj: Namespace, old: Namespace | None, request: Request) -> Errors:
        return [] if old is not None else _validate_finalizers(obj.spec.finalizers, _FINALIZERS)

    def validate_status(self, new: Namespace, old: Namespace, request: Request) -> Errors:
        wanted, is_empty = (
            ("Active", "is empty") if new.metadata.deletion_timestamp is None else ("Terminating", "is not empty")
        )
        if new.status.phase == wanted:
            return []
        detail = f"may only be '{wanted}' if `deletionTimestamp` {is_empty}"
        return [field_errors.invalid(_PHASE, new.status.phase, detail)]

    def admit(self, new: Namespace, old: Namespace | None, request: Request) -> None:
        admit_security_labels(new, old, request)


class FinalizeStrategy(StatusStrategy[Namespace]):
    def prepare_for_update(self, new: Namespace, old: Namespace, request: Request) -> None:
        wanted = new.spec
        super().prepare_for_update(new, old, request)
        new.spec = wanted
        new.status = copy_of(old.status)

    def validate_update(self, new: Namespace, old: Namespace, request: Request) -> Errors:
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        for index, name in enumerate(new.spec.finalizers):
            errors += _validate_finalizers([name], _FINALIZERS.index(index))
        return errors


def _validate_finalizers(finalizers: list[str], path: Path) -> Errors:
    errors: Errors = []
    for name in finalizers:
        errors += names.validate(path, name, names.label_key(name))
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        errors += checks.invalid_if("/" not in name and name not in meta.STANDARD_FINALIZERS, path, name, detail)
    return errors
