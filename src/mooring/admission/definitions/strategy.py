"""The strategy of CustomResourceDefinition. Its rules are imported on first use: most servers have no definitions."""

from mooring.admission.meta import NameCheck
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.api import field_errors, names
from mooring.api.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionStatus,
)
from mooring.api.base import copy_of
from mooring.api.field_errors import Errors

_HTTPS = 443


class DefinitionStrategy(Strategy[CustomResourceDefinition]):
    allow_unconditional_update = False

    def default(self, obj: CustomResourceDefinition) -> None:
        named = obj.spec.names
        named.singular = named.singular or named.kind.lower()
        if named.kind and not named.list_kind:
            named.list_kind = f"{named.kind}List"
        if obj.spec.conversion is None:
            obj.spec.conversion = CustomResourceConversion(strategy="None")
        webhook = obj.spec.conversion.webhook
        if webhook and webhook.client_config and webhook.client_config.service:
            set_missing(webhook.client_config.service, port=_HTTPS)

    def prepare_for_create(self, obj: CustomResourceDefinition, request: Request) -> None:
        obj.status = CustomResourceDefinitionStatus()
        obj.metadata.generation = 1
        _record_storage_version(obj)

    def prepare_for_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, request: Request
    ) -> None:
        new.status = copy_of(old.status)
        new.metadata.generation = old.metadata.generation + (new.spec != old.spec)
        _record_storage_version(new)

    def name_check_for(self, obj: CustomResourceDefinition, request: Request) -> NameCheck:
        required = f"{obj.spec.names.plural}.{obj.spec.group}"

        def check(name: str) -> names.Messages:
            wrong = names.dns1123_subdomain(name)
            return wrong if name == required else (*wrong, 'must be spec.names.plural+"."+spec.group')

        return check

    def validate(self, obj: CustomResourceDefinition, old: CustomResourceDefinition | None, request: Request) -> Errors:
        from mooring.admission.definitions import spec  # noqa: PLC0415 - see above

        errors = spec.validate(obj, old, request.options.custom)
        errors += spec.validate_names(obj.status.accepted_names, spec.STATUS.child("acceptedNames"))
        errors += spec.validate_stored_versions(obj)
        return errors + spec.validate_approval(obj, old) + _validate_preserving(obj, old)

    def validate_status(self, new: CustomResourceDefinition, old: CustomResourceDefinition, request: Request) -> Errors:
        from mooring.admission.definitions import spec  # noqa: PLC0415 - see above

        return spec.validate_names(new.status.accepted_names, spec.STATUS.child("acceptedNames"))

    def warnings(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition | None, request: Request
    ) -> list[str]:
        from mooring.admission.definitions.schemas import find_schema_warnings  # noqa: PLC0415 - see above

        known = find_schema_warnings(old, request.options.custom) if old else []
        return [text for text in find_schema_warnings(new, request.options.custom) if text not in known]


def _record_storage_version(obj: CustomResourceDefinition) -> None:
    storage = next((version.name for version in obj.spec.versions if version.storage), None)
    if storage is not None and storage not in obj.status.stored_versions:
        obj.status.stored_versions = [*obj.status.stored_versions, storage]


def _validate_preserving(obj: CustomResourceDefinition, old: CustomResourceDefinition | None) -> Errors:
    if not obj.spec.preserve_unknown_fields or (old is not None and old.spec.preserve_unknown_fields):
        return []
    from mooring.admission.definitions.spec import SPEC  # noqa: PLC0415 - see above

    detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return [field_errors.invalid(SPEC.child("preserveUnknownFields"), True, detail)]
