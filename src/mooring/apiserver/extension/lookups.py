"""What policies and webhooks ask the server about: labels of namespaces, and what somebody may do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.access.authz import Attributes, Authorizer, selected_node
from mooring.apiserver.registry.decoded_cache import DecodedCache
from mooring.store.kv import KeyValue, Store

if TYPE_CHECKING:
    from mooring.constraints.celenv.authorizer import Action, Decide, Decision


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Labels


class NamespaceLabels:
    """The labels of namespaces, as this server knows them; decoded when one has changed."""

    def __init__(self, store: Store, decoded: DecodedCache) -> None:
        self._store = store
        self._decoded = decoded

    def __call__(self, name: str) -> Mapping[str, str]:
        """Raises NotFound."""
        kv = self._store.peek(f"/registry/namespaces/{name}")
        if kv is None:
            raise errors.not_found("namespaces", name)
        return self._decoded.get(kv, _labels)


def _labels(kv: KeyValue) -> Mapping[str, str]:
    return msgspec.json.decode(kv.value, type=_Labelled).metadata.labels


def deciding(authorizer: Authorizer) -> "Decide":
    """The variable `authorizer` of expressions asks this."""

    def decide(user: UserInfo, action: "Action") -> "Decision":
        from mooring.constraints.celenv.authorizer import Decision  # noqa: PLC0415 - servers without expressions spare it

        asked = Attributes(
            action.verb,
            action.group,
            action.resource,
            action.subresource,
            action.namespace,
            action.name,
            action.path,
            selected_node(action.field_selector),
        )
        decision = authorizer.authorize(user, asked)
        return Decision(decision.allowed, decision.reason)

    return decide
