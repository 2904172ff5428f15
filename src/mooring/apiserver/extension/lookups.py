"""What policies and webhooks ask the server about: labels of namespaces, and what somebody may do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.access.authz import Attributes, Authorizer, selected_node
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import Store

if TYPE_CHECKING:
    from mooring.constraints.celenv.authorizer import Action, Answer, Decide

_NAMESPACES_KNOWN = 4096


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _Labelled(msgspec.Struct):
    metadata: _Labels


class NamespaceLabels:
    """The labels of namespaces, as this server knows them; decoded when one has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: BoundedCache[str, tuple[int, Mapping[str, str]]] = BoundedCache(_NAMESPACES_KNOWN)

    def __call__(self, name: str) -> Mapping[str, str]:
        """Raises NotFound."""
        kv = self._store.peek(f"/registry/namespaces/{name}")
        if kv is None:
            raise errors.not_found("namespaces", name)
        known = self._known.get(name)
        if known is None or known[0] != kv.mod_revision:
            known = (kv.mod_revision, msgspec.json.decode(kv.value, type=_Labelled).metadata.labels)
            self._known.put(name, known)
        return known[1]


def deciding(authorizer: Authorizer) -> "Decide":
    """The variable `authorizer` of expressions asks this."""

    def decide(user: UserInfo, action: "Action") -> "Answer":
        from mooring.constraints.celenv.authorizer import Answer  # noqa: PLC0415 - servers without expressions spare it

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
        return Answer(decision.allowed, decision.reason)

    return decide
