"""Objects of custom kinds from one version to another, by the webhook that their definition names.

A webhook is asked for many objects at once (`converted`), and its answer is believed as far as Kubernetes believes it:
as many objects as were sent, in the version that was asked for, the same in name, namespace, uid and kind; of the
metadata only labels and annotations may be others. Called by ``registry/stored.py``, which remembers what came.
"""

import json
from collections.abc import Sequence
from typing import Any

from mooring.admission.pipeline import new_uid
from mooring.api import errors
from mooring.api.apiextensions_v1 import WebhookClientConfig, WebhookConversion
from mooring.api.json_tree import DecodeError, parse_json
from mooring.apiserver.extension.webhooks.caller import WebhookCaller
from mooring.apiserver.extension.webhooks.failures import WebhookError

SECONDS = 30
_GROUP = "apiextensions.k8s.io"
_REVIEWS = ("v1", "v1beta1")
_MOST = 500
"""Objects in one request."""
Tree = dict[str, Any]


class Conversion:
    """The webhook of one definition."""

    def __init__(self, webhook: WebhookConversion, caller: WebhookCaller) -> None:
        self._config = webhook.client_config or WebhookClientConfig()
        self._version = next((each for each in webhook.conversion_review_versions if each in _REVIEWS), _REVIEWS[0])
        self._caller = caller

    async def converted(self, objects: Sequence[Tree], api_version: str) -> list[Tree]:
        """The objects in another version, in the same order; raises InternalError."""
        made: list[Tree] = []
        for start in range(0, len(objects), _MOST):
            made += await self._ask(objects[start : start + _MOST], api_version)
        return made

    async def _ask(self, objects: Sequence[Tree], api_version: str) -> list[Tree]:
        subject = f"{objects[0].get('apiVersion')}, Kind={objects[0].get('kind')}"
        uid = new_uid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{_GROUP}/{self._version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": [*objects]},
        }
        try:
            answer = await self._caller.call(self._config, json.dumps(review).encode(), seconds=SECONDS)
            found = _response(answer, uid)
        except (WebhookError, DecodeError) as error:
            raise errors.internal_error(f"conversion webhook for {subject} failed: {error}") from None
        if len(found) != len(objects):
            why = f"returned {len(found)} objects, expected {len(objects)}"
            raise errors.internal_error(f"conversion webhook for {subject} {why}")
        return [
            _checked(subject, index, before, after, api_version)
            for index, (before, after) in enumerate(zip(objects, found, strict=True))
        ]


def _response(answer: bytes, uid: str) -> list[Any]:
    """The objects in an answer; raises DecodeError."""
    review = parse_json(answer)
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise DecodeError("no response provided")
    if response.get("uid") != uid:
        raise DecodeError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if not isinstance(result, dict) or result.get("status") != "Success":
        status = result.get("status", "") if isinstance(result, dict) else ""
        message = result.get("message") if isinstance(result, dict) else ""
        raise DecodeError(str(message) if message else f"response.result.status was '{status}', not 'Success'")
    found = response.get("convertedObjects") or []
    if not isinstance(found, list):
        raise DecodeError("response.convertedObjects is no list")
    return found


def _checked(subject: str, index: int, before: Tree, after: Any, api_version: str) -> Tree:
    """A converted object with the metadata that the webhook has no say in; raises InternalError."""
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
