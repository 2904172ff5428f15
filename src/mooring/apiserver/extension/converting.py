"""Convert custom objects between versions by a conversion webhook.

Stored objects are rendered without waiting. So `prepare` is awaited first, by `decode_by_size`, by responses
(``registry/verbs/views.py``), lists and watches: it sends all objects stored in another version to the webhook at once,
and caches the results. The response of a webhook must have as many objects as were sent, in the requested version, with
the same name, namespace, uid and kind. Of their metadata, only labels and annotations are used.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mooring.admission.pipeline import generate_uid
from mooring.api import codec, errors
from mooring.api.apiextensions_v1 import WebhookClientConfig, WebhookConversion
from mooring.api.dynamic import Dynamic, normalize, of_own
from mooring.api.json_tree import DecodeError, parse_json
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.webhooks.caller import WebhookCaller
from mooring.apiserver.extension.webhooks.failures import WebhookError
from mooring.apiserver.registry.storage.stored import MakeStored, Stored
from mooring.base.bounded_cache import BoundedCache

_MAX_CONVERTED = 65_536
_MAX_OBJECTS_PER_CALL = 500
_SECONDS = 30
_GROUP = "apiextensions.k8s.io"
_REVIEWS = ("v1", "v1beta1")
Tree = dict[str, Any]


def stored_with_conversion(caller: WebhookCaller) -> MakeStored:
    """Return a function that makes a kind's `Stored`: with a conversion webhook if its definition has one."""

    def stored_as(scheme: Scheme, kind: Kind) -> Stored:
        conversion = kind.custom.definition.spec.conversion if kind.custom else None
        if conversion is None or conversion.webhook is None:
            return Stored(scheme, kind)
        return WebhookConvertedStored(scheme, kind, conversion.webhook, caller)

    return stored_as


class WebhookConvertedStored(Stored):
    """Encodes and decodes stored custom objects whose versions a webhook converts; conversions are cached."""

    needs_webhook = True

    def __init__(self, scheme: Scheme, kind: Kind, webhook: WebhookConversion, caller: WebhookCaller) -> None:
        super().__init__(scheme, kind)
        self._config = webhook.client_config or WebhookClientConfig()
        self._review = next((each for each in webhook.conversion_review_versions if each in _REVIEWS), _REVIEWS[0])
        self._caller = caller
        self._converted = BoundedCache(_MAX_CONVERTED)

    async def prepare(self, values: Iterable[bytes], kind: Kind) -> None:
        """Have the webhook convert all objects stored in another version; raise InternalError if it fails."""
        missing = [
            value
            for value in dict.fromkeys(values)
            if self._find_stored_version(value) is not kind and self._converted.get((value, kind)) is None
        ]
        for start in range(0, len(missing), _MAX_OBJECTS_PER_CALL):
            part = missing[start : start + _MAX_OBJECTS_PER_CALL]
            trees = await self._call_webhook([msgspec.json.decode(value) for value in part], kind.api_version)
            assert issubclass(kind.type, Dynamic), "only custom kinds have webhooks"  # noqa: S101 - says what is known
            for value, tree in zip(part, trees, strict=True):
                self._converted.put((value, kind), codec.encode(normalize(of_own(tree, kind.type))))

    async def encode_by_size(self, obj: Resource, size: int) -> bytes:  # noqa: ARG002 - converted before
        await self.prepare([self.encode(obj, self.hub)], self.storage)
        return self.encode(obj)

    async def decode_by_size(self, value: bytes, revision: int, size: int) -> Resource:
        await self.prepare([value], self.hub)
        return await super().decode_by_size(value, revision, size)

    def encode(self, obj: Resource, version: Kind | None = None) -> bytes:
        own, version = super().encode(obj, self.hub), version or self.storage
        return own if version is self.hub else self._convert(own, version)

    def decode(self, value: bytes, revision: int) -> Resource:
        is_own = self._find_stored_version(value) is self.hub
        return super().decode(value if is_own else self._convert(value, self.hub), revision)

    def _convert(self, value: bytes, kind: Kind) -> bytes:
        if self._find_stored_version(value) is kind:
            return super()._convert(value, kind)
        found = self._converted.get((value, kind))
        if found is None:
            raise errors.internal_error(f"an object of kind {kind.kind} has not been converted to {kind.api_version}")
        return found

    async def _call_webhook(self, objects: Sequence[Tree], api_version: str) -> list[Tree]:
        """Send objects to the webhook; return them converted, in the same order. Raise InternalError if that fails."""
        subject = f"{objects[0].get('apiVersion')}, Kind={objects[0].get('kind')}"
        uid = generate_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{self._review}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": [*objects]},
        }
        try:
            answer = await self._caller.call(self._config, json.dumps(review).encode(), seconds=_SECONDS)
            found = _converted_objects_in(answer, uid)
        except (WebhookError, DecodeError) as error:
            raise errors.internal_error(f"conversion webhook for {subject} failed: {error}") from None
        if len(found) != len(objects):
            why = f"returned {len(found)} objects, expected {len(objects)}"
            raise errors.internal_error(f"conversion webhook for {subject} {why}")
        return [
            _check_converted(subject, index, before, after, api_version)
            for index, (before, after) in enumerate(zip(objects, found, strict=True))
        ]


def _converted_objects_in(answer: bytes, uid: str) -> list[Any]:
    """Return the converted objects in a ConversionReview response; raise DecodeError if malformed or a failure."""
    review = parse_json(answer)
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise DecodeError("no response provided")
    if response.get("uid") != uid:
        raise DecodeError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    given = response.get("result")
    result = given if isinstance(given, dict) else {}
    if result.get("status") != "Success":
        why = f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise DecodeError(str(result.get("message") or why))
    found = response.get("convertedObjects") or []
    if not isinstance(found, list):
        raise DecodeError("response.convertedObjects is no list")
    return found


def _check_converted(subject: str, index: int, before: Tree, after: Any, api_version: str) -> Tree:
    """Return a converted object with its original metadata; raise InternalError if the webhook changed identity."""
    begin = f"conversion webhook for {subject} returned"
    bad = f"{begin} invalid converted object at index {index}: "
    if not isinstance(after, dict):
        raise errors.internal_error(f"{bad}it is no object")
    for what, expected, got in (
        ("groupVersion", api_version, after.get("apiVersion")),
        ("kind", before.get("kind"), after.get("kind")),
    ):
        if expected != got:
            raise errors.internal_error(f"{bad}invalid {what} (expected {expected}, received {got})")
    old, new = before.get("metadata") or {}, after.get("metadata")
    if not isinstance(new, dict):
        raise errors.internal_error(f"{begin} invalid metadata in object at index {index}: missing metadata")
    for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if old.get(name) != new.get(name):
            raise errors.internal_error(f"{bad}must have the same {shown}: {old.get(name)} != {new.get(name)}")
    metadata = {key: value for key, value in old.items() if key not in {"labels", "annotations"}}
    for name in ("labels", "annotations"):
        given = new.get(name) or {}
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            why = f"metadata.{name} must be texts"
            raise errors.internal_error(f"{begin} invalid metadata in object at index {index}: {why}")
        if given:
            metadata[name] = given
    return {**after, "metadata": metadata}
