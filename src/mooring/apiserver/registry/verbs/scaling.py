"""The `scale` subresource: the replica count of an object, in one form for all kinds."""

from collections.abc import Callable
from typing import Any

from mooring.api import codec, errors, field_errors, label_selector
from mooring.api.apiextensions_v1 import CustomResourceSubresourceScale
from mooring.api.autoscaling_v1 import Scale, ScaleSpec, ScaleStatus
from mooring.api.base import copy_of
from mooring.api.codec import DecodeError
from mooring.api.core_v1 import ReplicationController
from mooring.api.dynamic import Dynamic, value_at, with_value
from mooring.api.field_path import Path
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.apiserver.messages.http import Response
from mooring.apiserver.registry.admission.write_admission import Projection
from mooring.apiserver.registry.call import Call
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.parameters import WriteOptions, check_type, read_body, write_options
from mooring.apiserver.registry.patch import PatchError, patcher_for
from mooring.apiserver.registry.verbs.changes import APPLY, Change, ObjectWrites, Plan, Update
from mooring.apiserver.registry.verbs.executor import CommittedWrite, WriteExecutor
from mooring.apiserver.registry.verbs.reading import find_named
from mooring.apiserver.registry.verbs.views import make_response

_GROUP, _VERSION = "autoscaling", "v1"
_IDENTITY = frozenset({"name", "namespace", "resourceVersion"})


class Scaling:
    """Handles `get`, `update` and `patch` of the subresource `scale`, which has one form for all kinds."""

    def __init__(self, context: HandlerContext, executor: WriteExecutor, object_writes: ObjectWrites) -> None:
        self._context = context
        self._executor = executor
        self._object_writes = object_writes
        self._kind = context.kinds.scheme.hub_of(Scale)

    async def get(self, call: Call) -> Response:
        kv = await find_named(self._context.store, call)
        obj = await call.stored.decode_by_size(kv.value, kv.mod_revision, len(kv.value))
        paths = _scale_paths(call.kind)
        if isinstance(obj, Dynamic) and paths and value_at(obj.content, paths.spec_replicas_path) is None:
            raise errors.internal_error(f'the spec replicas field "{paths.spec_replicas_path}" does not exist')
        return make_response(call, codec.encode(scale_of(obj, paths)))

    async def update(self, call: Call) -> Response:
        options = write_options(call.request, "UpdateOptions")
        decoded = read_body(call.request, Scale, "Scale", self._kind.api_version, options.validation)
        call.warn(*decoded.warnings)
        check_type(decoded.object, self._kind)
        return await self._write_change(call, options, _scaled_by(lambda _: decoded.object, _scale_paths(call.kind)))

    async def patch(self, call: Call) -> Response:
        is_apply = call.request.content_type == APPLY
        options = write_options(call.request, "PatchOptions", is_apply=is_apply)
        if is_apply:
            return await self._write_change(call, options, self._apply_scale(call, options), managed_already=True)
        patcher = patcher_for(call.request.content_type, call.request.body, self._kind)

        def patch_scale(scale: Scale) -> Scale:
            try:
                decoded, warnings = codec.from_tree(patcher.apply(codec.to_tree(scale)), Scale, options.validation)
            except PatchError as error:
                raise error.status(self._kind, call.name) from None
            except DecodeError as error:
                raise errors.bad_request(f"error decoding patch: {error}") from None
            call.warn(*warnings)
            check_type(decoded, self._kind)
            return decoded

        return await self._write_change(call, options, _scaled_by(patch_scale, _scale_paths(call.kind)))

    def _apply_scale(self, call: Call, options: WriteOptions) -> Change:
        """Return a function that applies a Scale's replicas to the scaled object (server-side apply)."""
        scale = self._object_writes.read_config(call, self._kind)
        replicas = {name: count for name, count in scale.get("spec", {}).items() if name == "replicas"}
        _check_replicas(call.name, replicas.get("replicas", 0))
        metadata = {name: text for name, text in scale["metadata"].items() if name in _IDENTITY}
        config = {"apiVersion": call.kind.api_version, "kind": call.kind.kind, "metadata": metadata, "spec": replicas}
        paths = _scale_paths(call.kind)
        if paths is not None:
            del config["spec"]
            config = with_value(config, paths.spec_replicas_path, replicas["replicas"]) if replicas else config
        applier = self._object_writes.applier(call, options, config)

        def apply_scale(old: Resource) -> Resource:
            new = applier.change(old)
            _set_replicas(new, _replicas_of(new, paths), paths)  # a missing number is 0, whatever the default
            return new

        return apply_scale

    async def _write_change(
        self, call: Call, options: WriteOptions, change: Change, *, managed_already: bool = False
    ) -> Response:
        paths = _scale_paths(call.kind)

        def write_replicas(obj: Resource, scale: Resource | None) -> None:
            if isinstance(scale, Scale):
                _set_replicas(obj, scale.spec.replicas, paths)

        view = Projection(self._kind, lambda obj: scale_of(obj, paths), write_replicas)

        async def answer(written: CommittedWrite) -> Response:
            obj = await call.stored.decode_by_size(written.value, written.revision, len(written.value))
            return make_response(call, codec.encode(scale_of(obj, paths)))

        write = Update(
            self._context, call, options, lambda: Plan(change), "", managed_already, view=view, respond=answer
        )
        return await self._executor.execute_one(write)


def scale_of(obj: Resource, paths: CustomResourceSubresourceScale | None) -> Scale:
    """Return an object's desired and actual replicas as a Scale; `paths` locate them in a custom object."""
    metadata = ObjectMeta(
        name=obj.metadata.name,
        namespace=obj.metadata.namespace,
        uid=obj.metadata.uid,
        resource_version=obj.metadata.resource_version,
        creation_timestamp=obj.metadata.creation_timestamp,
    )
    return Scale(
        kind="Scale",
        api_version=f"{_GROUP}/{_VERSION}",
        metadata=metadata,
        spec=ScaleSpec(replicas=_replicas_of(obj, paths)),
        status=_scale_status(obj, paths),
    )


def _replicas_of(obj: Any, paths: CustomResourceSubresourceScale | None) -> int:
    return _replicas_at_path(obj, paths.spec_replicas_path) if paths is not None else obj.spec.replicas or 0


def _scale_status(obj: Any, paths: CustomResourceSubresourceScale | None) -> ScaleStatus:
    if paths is None:
        return ScaleStatus(replicas=obj.status.replicas, selector=_selector_of(obj))
    selector = value_at(obj.content, paths.label_selector_path) if paths.label_selector_path else ""
    return ScaleStatus(replicas=_replicas_at_path(obj, paths.status_replicas_path), selector=str(selector or ""))


def _replicas_at_path(obj: Dynamic, path: str) -> int:
    found = value_at(obj.content, path)
    return found if isinstance(found, int) else 0


def _scale_paths(kind: Kind) -> CustomResourceSubresourceScale | None:
    subresources = kind.custom.version.subresources if kind.custom else None
    return subresources.scale if subresources else None


def _selector_of(obj: Any) -> str:
    if isinstance(obj, ReplicationController):
        return str(label_selector.from_labels(obj.spec.selector or {}))
    return str(label_selector.from_label_selector(obj.spec.selector))


def _scaled_by(change: Callable[[Scale], Scale], paths: CustomResourceSubresourceScale | None) -> Change:
    """Return a function that changes an object's replicas as `change` changes its Scale."""

    def scaled(old: Resource) -> Resource:
        scale = change(scale_of(old, paths))
        if paths is None:  # a custom kind has a schema for it
            _check_replicas(old.metadata.name, scale.spec.replicas)
        new = copy_of(old)
        _set_replicas(new, scale.spec.replicas, paths)
        new.metadata.resource_version = scale.metadata.resource_version or old.metadata.resource_version
        new.metadata.uid = scale.metadata.uid or old.metadata.uid
        return new

    return scaled


def _set_replicas(obj: Any, replicas: int, paths: CustomResourceSubresourceScale | None) -> None:
    if paths is not None:
        obj.content = with_value(obj.content, paths.spec_replicas_path, replicas)
    else:
        obj.spec.replicas = replicas


def _check_replicas(name: str, replicas: int) -> None:
    if replicas < 0:
        wrong = field_errors.invalid(Path("spec.replicas"), replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", name, [wrong], group=_GROUP)
