"""Parse the options of writes, from the query or the body of a deletion, and the objects in request bodies.

Called by ``verbs/changes.py`` and ``verbs/deleting.py``. Errors are worded as in Kubernetes.
"""

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from mooring.admission import rows
from mooring.api import codec, errors, field_errors
from mooring.api.codec import DecodeError, FieldValidation, TooLargeError, Unsupported
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import DeleteOptions, Preconditions, Resource, TypeMeta
from mooring.api.protobuf import MEDIA_TYPE as PROTOBUF
from mooring.api.struct_times import WrongTimeError, normalize_times
from mooring.apiserver.messages.http import JSON, YAML, Request

CONSUMED = (JSON, YAML)
"""The media types of request bodies that the server accepts."""

MAX_MANAGER = 128
_YAML_TYPES = frozenset({YAML, "text/yaml", "application/x-yaml", "application/apply-patch+yaml"})
_POLICIES = ("Background", "Foreground", "Orphan")
_TYPE_META = msgspec.json.Decoder(TypeMeta)
_VALIDATIONS = [each.value for each in (FieldValidation.IGNORE, FieldValidation.STRICT, FieldValidation.WARN)]
T = TypeVar("T", bound=TypeMeta)


class WriteOptions(msgspec.Struct, frozen=True):
    """The options in the query of a create, update or patch: dry run, field manager, field validation."""

    dry_run: bool = False
    manager: str = ""
    """The field manager: the parameter `fieldManager`, or else the program in the User-Agent."""
    validation: FieldValidation = FieldValidation.WARN
    force: bool = False


def write_options(request: Request, options_kind: str, *, is_apply: bool = False) -> WriteOptions:
    """Return the options in the query of a write; raise Invalid if a value is not allowed."""
    if not request.query and not is_apply:
        return _default_write_options(request.user_agent)
    wrong = _dry_run_errors(list(request.query.get("dryRun", ())))
    manager = request.parameter("fieldManager")
    wrong += _manager_errors(manager, required=is_apply)
    if options_kind == "PatchOptions" and "force" in request.query and not is_apply:
        wrong.append(field_errors.forbidden(Path("force"), "may not be specified for non-apply patch"))
    validation = request.parameter("fieldValidation")
    if validation and validation not in _VALIDATIONS:
        wrong.append(field_errors.not_supported(Path("fieldValidation"), validation, _VALIDATIONS))
    if wrong:
        raise errors.invalid(options_kind, "", wrong, group="meta.k8s.io")
    return WriteOptions(
        dry_run="dryRun" in request.query,
        manager=manager or manager_of(request.user_agent),
        validation=FieldValidation(validation) if validation else FieldValidation.WARN,
        force=request.flag("force"),
    )


def options_tree(request: Request, options_kind: str) -> dict[str, Any]:
    """Return a write's options as the JSON that policies and webhooks see."""
    tree: dict[str, Any] = {"kind": options_kind, "apiVersion": "meta.k8s.io/v1"}
    if "dryRun" in request.query:
        tree["dryRun"] = [*request.query["dryRun"]]
    for name in ("fieldManager", "fieldValidation"):
        if given := request.parameter(name):
            tree[name] = given
    return tree


@lru_cache(maxsize=256)
def _default_write_options(user_agent: str) -> WriteOptions:
    return WriteOptions(manager=manager_of(user_agent))


def manager_of(user_agent: str) -> str:
    """Return the default field manager, the program in the User-Agent: `kubectl` for `kubectl/v1.32.4 (…)`."""
    name = user_agent.partition("/")[0]
    printable = "".join(char for char in name if char.isprintable())
    return printable.encode()[:MAX_MANAGER].decode(errors="ignore") or "unknown"


def delete_options(request: Request) -> DeleteOptions:
    """Return a deletion's options from its body, or its query; raise Invalid or BadRequest if one is wrong."""
    options = _delete_options_of_body(request) if request.body.strip() else _delete_options_of_query(request)
    row = request.row
    if row is not None and (row.uid or row.resource_version):
        given = options.preconditions or Preconditions()
        uid, version = row.uid or given.uid, row.resource_version or given.resource_version
        options.preconditions = Preconditions(uid=uid, resource_version=version)
    wrong = _dry_run_errors(options.dry_run)
    if options.propagation_policy is not None and options.propagation_policy not in _POLICIES:
        supported = [*_POLICIES, "nil"]
        wrong.append(field_errors.not_supported(Path("propagationPolicy"), options.propagation_policy, supported))
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        wrong.append(field_errors.invalid(Path("propagationPolicy"), options.propagation_policy, detail))
    if wrong:
        raise errors.invalid("DeleteOptions", "", wrong, group="meta.k8s.io")
    return options


def _delete_options_of_body(request: Request) -> DeleteOptions:
    options = read_body(request, DeleteOptions, "DeleteOptions", "meta.k8s.io/v1", FieldValidation.IGNORE).object
    if options.kind not in {"", "DeleteOptions"}:
        raise errors.bad_request(f"decoded object cannot be converted to DeleteOptions: it is a {options.kind}")
    return options


def parse_number(request: Request, name: str) -> int | None:
    """Return a query parameter as a number; None if it is missing or empty. Raise BadRequest if it is no number."""
    text = request.parameter(name)
    try:
        return int(text) if text else None
    except ValueError:
        raise errors.bad_request(f'{name}: "{text[:40]}" is not a number') from None


def _delete_options_of_query(request: Request) -> DeleteOptions:
    options = DeleteOptions(dry_run=list(request.query.get("dryRun", ())))
    options.grace_period_seconds = parse_number(request, "gracePeriodSeconds")
    if "orphanDependents" in request.query:
        options.orphan_dependents = request.flag("orphanDependents")
    options.propagation_policy = request.parameter("propagationPolicy") or None
    return options


def read_body(
    request: Request, cls: type[T], kind: str, api_version: str, validation: FieldValidation
) -> codec.Decoded[T]:
    """Decode a request body (JSON, YAML, protobuf) into a type; raise BadRequest or UnsupportedMediaType."""
    media_type = request.content_type
    try:
        if media_type in _YAML_TYPES:
            return codec.decode_yaml(request.body, cls, validation)
        if media_type in {"", JSON}:
            return codec.decode(request.body, cls, validation)
        if media_type == PROTOBUF:
            return codec.decode_protobuf(request.body, cls, validation)
    except TooLargeError as error:
        raise errors.request_entity_too_large(str(error)) from None
    except DecodeError as error:
        raise _wrong_body(request, kind, api_version, error) from None
    except Unsupported:
        pass  # kinds that are newer than the table of protobuf's numbers
    raise errors.unsupported_media_type(CONSUMED)


def read_object(request: Request, kind: Kind, validation: FieldValidation) -> codec.Decoded[Resource]:
    """Decode the object in a request body; raise BadRequest if its kind or version differs from the path's."""
    decoded = read_body(request, kind.type, kind.kind, kind.api_version, validation)
    if request.row is not None:
        rows.insert_row(decoded.object, request.row)
    check_object(decoded.object, kind)
    return decoded


def check_object(obj: Resource, kind: Kind) -> None:
    """Set an object's type if missing, and normalise its times; raise BadRequest if they are wrong."""
    check_type(obj, kind)
    try:
        normalize_times(obj)
    except WrongTimeError as error:
        said = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise errors.bad_request(said) from None


def check_type(obj: TypeMeta, kind: Kind) -> None:
    """Set an object's apiVersion and kind if missing; raise BadRequest if they differ from the path's."""
    obj.kind = obj.kind or kind.kind
    obj.api_version = obj.api_version or kind.api_version
    if obj.api_version != kind.api_version:
        raise errors.bad_request(
            f"the API version in the data ({obj.api_version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if obj.kind != kind.kind and kind.custom:
        name = obj.metadata.name if isinstance(obj, Resource) else ""
        wrong = field_errors.invalid(Path("kind"), obj.kind, f"must be {kind.kind}")
        raise errors.invalid(obj.kind, name, [wrong], group=kind.group)
    if obj.kind != kind.kind:
        why = f"converting ({kind.version}.{obj.kind}) to ({kind.group or 'core'}.{kind.kind}): unknown conversion"
        raise errors.bad_request(f'{obj.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def _wrong_body(request: Request, kind: str, api_version: str, error: DecodeError) -> errors.BadRequest:
    """Return the BadRequest for a body that cannot be decoded, with the kind that the body states."""
    given = kind
    try:
        meta = _TYPE_META.decode(request.body)
        given = meta.kind or kind
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    version = api_version.rpartition("/")[2]
    return errors.bad_request(f'{given} in version "{version}" cannot be handled as a {kind}: {error}')


def _dry_run_errors(values: list[str]) -> Errors:
    if all(value == "All" for value in values):
        return []
    return [field_errors.not_supported(Path("dryRun"), values, ["All"])]


def _manager_errors(manager: str, *, required: bool) -> Errors:
    path = Path("fieldManager")
    if required and not manager:
        return [field_errors.required(path, "is required for apply patch")]
    if len(manager.encode()) > MAX_MANAGER:
        return [field_errors.too_long(path, MAX_MANAGER)]
    if not manager.isprintable():
        return [field_errors.invalid(path, manager, "should only contain printable characters")]
    return []
