"""The strategy of one version of a custom kind: defaulting and validation by its schema.

The API server creates one for each served version and registers it with the version's type. Schemas are compiled when
the first object arrives. The order of the steps is Kubernetes'.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.admission import meta
from mooring.admission.custom import structure, validation
from mooring.admission.custom.validation import Check, SchemaErrors, compile_schema
from mooring.admission.strategy import Request, Strategy, SubresourceStrategy
from mooring.api import codec, field_errors, names
from mooring.api import errors as api_errors
from mooring.api.apiextensions_v1 import CustomResourceSubresourceScale, JSONSchemaProps
from mooring.api.dynamic import Dynamic, value_at, wrong_type
from mooring.api.field_errors import Errors, ErrorType
from mooring.api.field_path import Path
from mooring.api.json_tree import TooLargeError
from mooring.api.kinds import Kind
from mooring.api.structural import DefaultsLimit, Structural, set_defaults

if TYPE_CHECKING:
    from mooring.admission.custom.rules import ValidationRules

_INT32 = 2**31 - 1
_BLOCKING = frozenset(
    {
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class CustomStrategy(Strategy[Dynamic]):
    allow_unconditional_update = False

    def __init__(self, kind: Kind) -> None:
        if kind.custom is None or not issubclass(kind.type, Dynamic):
            raise TypeError(f"{kind.api_version} {kind.kind} is no custom kind")
        self.object_type = kind.type
        self.group, self.kind, self.resource = kind.group, kind.kind, kind.plural
        self.namespaced = kind.namespaced
        self.schema = kind.type.schema
        subresources = kind.custom.version.subresources
        self.has_status = subresources is not None and subresources.status is not None
        self.scale = subresources.scale if subresources is not None else None
        super().__init__({"status": CustomStatusStrategy(self)} if self.has_status else None)

    @cached_property
    def check(self) -> Check:
        return compile_schema(self.schema.props)

    @cached_property
    def status_check(self) -> Check:
        return compile_schema(self.schema.props.properties.get("status", JSONSchemaProps()))

    @cached_property
    def cel_rules(self) -> "ValidationRules | None":
        """Return the evaluator of the schema's CEL rules; None if the schema has no rules."""
        if not structure.has_matching_node(self.schema, lambda node: bool(node.props.validations)):
            return None
        from mooring.admission.custom.rules import ValidationRules  # noqa: PLC0415 - brings the CEL engine in

        return ValidationRules(self.schema)

    @cached_property
    def _has_embedded(self) -> bool:
        return any(child.embeds for child in self.schema.children())

    @cached_property
    def _has_list_types(self) -> bool:
        return structure.has_matching_node(self.schema, lambda node: node.props.list_type in {"set", "map"})

    @cached_property
    def _has_metadata_schema(self) -> bool:
        found = self.schema.props.properties.get("metadata")
        return found is not None and bool(found.properties)

    def default(self, obj: Dynamic) -> None:
        try:
            set_defaults(obj.content, self.schema, DefaultsLimit())
        except TooLargeError as error:
            raise api_errors.request_entity_too_large(str(error)) from None

    def prepare_for_create(self, obj: Dynamic, request: Request) -> None:
        if self.has_status:
            obj.content.pop("status", None)
        obj.metadata.generation = 1

    def prepare_for_update(self, new: Dynamic, old: Dynamic, request: Request) -> None:
        if self.has_status:
            if "status" in old.content:
                new.content["status"] = old.content["status"]  # shared, immutable from here on
            else:
                new.content.pop("status", None)
        new.metadata.generation = old.metadata.generation + (new.content != old.content)

    def validate_create(self, obj: Dynamic, request: Request) -> Errors:
        errors = meta.validate_object_meta(
            obj.metadata, namespaced=self.namespaced, name_check=names.dns1123_subdomain, any_finalizer=True
        )
        tree = self.tree(obj)
        errors += validation.validate(self.check, tree)
        errors += self._validate_scale(obj)
        errors += self.validate_structure(obj, None)
        return errors + self.validate_rules(tree, None, errors, request)

    def validate_update(self, new: Dynamic, old: Dynamic, request: Request) -> Errors:
        errors = meta.validate_object_meta_update(new.metadata, old.metadata, any_finalizer=True)
        tree, before = self.tree(new), self.tree(old)
        errors += self.validate_changed_values(self.check, tree, before, self.schema)
        errors += self._validate_scale(new)
        errors += self.validate_structure(new, old)
        return errors + self.validate_rules(tree, before, errors, request)

    def warnings(self, new: Dynamic, old: Dynamic | None, request: Request) -> list[str]:
        if not new.metadata.finalizers:
            return []
        known = old.metadata.finalizers if old else ()
        return [
            text
            for name in sorted(set(new.metadata.finalizers).difference(known))
            for text in find_finalizer_warnings(name)
        ]

    def tree(self, obj: Dynamic) -> dict[str, Any]:
        """Return an object as a dict of JSON values; its metadata is empty unless schema or rules read it."""
        metadata = codec.to_tree(obj.metadata) if self._has_metadata_schema or self.cel_rules else {}
        return {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata, **obj.content}

    def validate_changed_values(
        self, check: Check, new: Any, old: Any, schema: Structural | None, base: Path | None = None
    ) -> Errors:
        """Run a schema check on a new value; return only the errors at values that differ from `old`."""
        found = SchemaErrors(base)
        check(new, None, found)
        if not found.errors:
            return []
        errors_at_places = zip(found.errors, found.places, strict=True)
        return validation.drop_repeated_errors(
            validation.select_errors_at_changed_values(errors_at_places, new, old, schema)
        )

    def validate_structure(self, new: Dynamic, old: Dynamic | None, *, embedded: bool = True) -> Errors:
        """Return errors for embedded objects, and for duplicate list items unless the old object has duplicates too."""
        errors: Errors = []
        if embedded and self._has_embedded:
            errors += structure.validate_embedded_objects(new.content, self.schema)
        if self._has_list_types:
            doubles = structure.validate_list_types(new.content, self.schema)
            if doubles and not (old and structure.validate_list_types(old.content, self.schema)):
                errors += doubles
        return errors

    def validate_rules(self, new: Any, old: Any, errors: Errors, request: Request) -> Errors:
        """Return an error for each violated CEL rule; only one if schema `errors` prevent the evaluation."""
        if self.cel_rules is None:
            return []
        if any(error.type in _BLOCKING for error in errors):
            return [field_errors.invalid(None, None, _UNCHECKED)]
        return self.cel_rules.validate(new, old, request.warn)

    def _validate_scale(self, obj: Dynamic) -> Errors:
        if self.scale is None:
            return []
        return [*_validate_replicas(obj, self.scale.spec_replicas_path), *validate_scale_status(obj, self.scale)]


class CustomStatusStrategy(SubresourceStrategy[Dynamic]):
    main: CustomStrategy

    def prepare_for_update(self, new: Dynamic, old: Dynamic, request: Request) -> None:
        managed = new.metadata.managed_fields
        status = {"status": new.content["status"]} if "status" in new.content else {}
        new.metadata = msgspec.structs.replace(old.metadata, managed_fields=managed)
        new.content = {**{name: value for name, value in old.content.items() if name != "status"}, **status}

    def validate_update(self, new: Dynamic, old: Dynamic, request: Request) -> Errors:
        main = self.main
        errors = meta.validate_object_meta_update(new.metadata, old.metadata, any_finalizer=True)
        if "status" in new.content:
            before, schema = old.content.get("status"), main.schema.properties.get("status")
            errors += main.validate_changed_values(
                main.status_check, new.content["status"], before, schema, Path("status")
            )
        if main.scale is not None:
            errors += validate_scale_status(new, main.scale)
        errors += main.validate_structure(new, old, embedded=False)
        return errors + main.validate_rules(main.tree(new), main.tree(old), errors, request)


def validate_scale_status(obj: Dynamic, scale: CustomResourceSubresourceScale) -> Errors:
    """Return errors in an object's fields that the scale subresource maps to its status: replicas and selector."""
    errors = _validate_replicas(obj, scale.status_replicas_path)
    if scale.label_selector_path:
        path = Path(scale.label_selector_path)
        try:
            selector = value_at(obj.content, scale.label_selector_path)
        except TypeError as error:
            return [*errors, field_errors.invalid(path, "", str(error))]
        if selector is not None and not isinstance(selector, str):
            errors.append(field_errors.invalid(path, "", wrong_type(scale.label_selector_path, selector, "string")))
    return errors


def _validate_replicas(obj: Dynamic, place: str) -> Errors:
    path = Path(place)
    try:
        replicas = value_at(obj.content, place)
    except TypeError as error:
        return [field_errors.invalid(path, 0, str(error))]
    if replicas is None:
        return []
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        return [field_errors.invalid(path, 0, wrong_type(place, replicas, "int64"))]
    if replicas < 0:
        return [field_errors.invalid(path, replicas, "should be a non-negative integer")]
    if replicas > _INT32:
        return [field_errors.invalid(path, replicas, f"should be less than or equal to {_INT32}")]
    return []


def find_finalizer_warnings(name: str) -> list[str]:
    """Return warnings for one finalizer that is no qualified name, or has no `domain/` and is not Kubernetes' own."""
    begin = f'metadata.finalizers: "{name}": '
    found = [begin + wrong for wrong in names.label_key(name)]
    if "/" not in name and name not in meta.STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        found.append(
            f"{begin}prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other"
            " finalizer writers"
        )
    return found
