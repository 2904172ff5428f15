"""Lookups for policies and webhooks: labels of namespaces, and permissions of users."""

from collections.abc import Callable, Mapping

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.access.authz import Attributes, Authorizer, selected_node
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache, labels_of
from mooring.apiserver.registry.storage.stored import ROOT
from mooring.constraints.celenv.authorizer import Action, Decide, Decision
from mooring.store.kv import KeyValue, Store


def find_namespace(store: Store, name: str) -> KeyValue:
    """Return a stored namespace from memory; raise NotFound if it does not exist."""
    kv = store.peek(f"{ROOT}namespaces/{name}")
    if kv is None:
        raise errors.not_found("namespaces", name)
    return kv


def namespace_labels(store: Store, decoded: DecodedCache) -> Callable[[str], Mapping[str, str]]:
    """Return a function that returns a namespace's labels from memory, and raises NotFound if it does not exist."""
    return lambda name: decoded.get(find_namespace(store, name), labels_of)


def make_decide(authorizer: Authorizer) -> Decide:
    """Return a function that authorizes an action of a user, for the variable `authorizer` of CEL expressions."""

    def authorize_action(user: UserInfo, action: Action) -> Decision:
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

    return authorize_action
