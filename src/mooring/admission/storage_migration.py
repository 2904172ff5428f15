"""Validate StorageVersionMigrations; kube-controller-manager's controller executes them."""

import re

from mooring.admission import checks
from mooring.admission.meta import IMMUTABLE
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.storagemigration_v1 import StorageVersionMigration

_RESOURCE = Path("spec.resource")
_STATUS = Path("status")
_VERSION = re.compile("[1-9][0-9]*")


class StorageVersionMigrationStrategy(Strategy[StorageVersionMigration]):
    has_generation = False
    immutable = ("spec",)

    def validate(self, obj: StorageVersionMigration, old: StorageVersionMigration | None, request: Request) -> Errors:
        wanted, errors = obj.spec.resource, []
        if not wanted.resource:
            errors.append(field_errors.required(_RESOURCE.child("resource"), "resource is required to be set"))
        elif problems := names.dns1035_label(wanted.resource):
            errors.append(field_errors.invalid(_RESOURCE.child("resource"), wanted.resource, ",".join(problems)))
        if wanted.group and (problems := names.dns1123_subdomain(wanted.group)):
            errors.append(field_errors.invalid(_RESOURCE.child("group"), wanted.group, ",".join(problems)))
        return errors

    def validate_status(self, new: StorageVersionMigration, old: StorageVersionMigration, request: Request) -> Errors:
        version, here = new.status.resource_version, _STATUS.child("resourceVersion")
        errors: Errors = []
        if version and not _VERSION.fullmatch(version):
            errors.append(field_errors.invalid(here, version, f"resource version is not well formed: {version}"))
        conditions = _STATUS.child("conditions")
        errors += checks.validate_conditions(new.status.conditions, conditions)
        is_changed = old.status.resource_version not in ("", version)
        errors += checks.invalid_if(is_changed, here, version, IMMUTABLE)
        has_both = _is_condition_true(new, "Succeeded") and _is_condition_true(new, "Failed")
        detail = "Both success and failed conditions cannot be true at the same time"
        errors += checks.invalid_if(has_both, conditions, new.status.conditions, detail)
        for kind, shown in (("Succeeded", "Success"), ("Failed", "Failed")):
            is_reset = _is_condition_true(old, kind) and not _is_condition_true(new, kind)
            detail = f"{shown} condition cannot be set to false once it is true"
            errors += checks.invalid_if(is_reset, conditions, new.status.conditions, detail)
        return errors


def _is_condition_true(migration: StorageVersionMigration, kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in migration.status.conditions)
