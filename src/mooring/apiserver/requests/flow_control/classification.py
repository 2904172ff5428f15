"""Finds the FlowSchema and the priority level of a request, for the headers of its answer.

The edge asks for every request whose sender it knows. What suits is worked out once for each user and sort of request,
and kept until a FlowSchema or a level changes: then asking again costs one lookup.
"""

from collections.abc import Iterable, Sequence

from mooring.admission.flow_control import ALL
from mooring.api.authentication_v1 import UserInfo
from mooring.api.flowcontrol_v1 import (
    FlowSchema,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    ResourcePolicyRule,
    Subject,
)
from mooring.apiserver.access.authz import Attributes
from mooring.apiserver.messages.users import split_service_account
from mooring.base.bounded_cache import BoundedCache

Headers = tuple[tuple[bytes, bytes], ...]
_KNOWN = 8192
_SCHEMA, _LEVEL = b"x-kubernetes-pf-flowschema-uid", b"x-kubernetes-pf-prioritylevel-uid"


class Classification:
    """The FlowSchemas of the cluster, in the order in which they are looked at."""

    def __init__(self) -> None:
        self._schemas: Sequence[tuple[FlowSchema, Headers]] = ()
        self._known: BoundedCache[tuple[object, ...], Headers] = BoundedCache(_KNOWN)

    def replace(self, schemas: Iterable[FlowSchema], levels: Iterable[PriorityLevelConfiguration]) -> None:
        """Go by these from now on; a schema whose level is missing counts as if it were not there."""
        uids = {level.metadata.name: level.metadata.uid for level in levels}
        found = [each for each in schemas if each.spec.priority_level_configuration.name in uids]
        found.sort(key=lambda each: (each.spec.matching_precedence, each.metadata.name))
        self._schemas = [(each, _headers(each, uids[each.spec.priority_level_configuration.name])) for each in found]
        self._known = BoundedCache(_KNOWN)

    def headers(self, user: UserInfo, asked: Attributes) -> Headers:
        """What the answer to a request says of it; nothing as long as no schema is known."""
        if not self._schemas:
            return ()
        key = (
            user.username,
            *user.groups,
            "",
            asked.verb,
            asked.group,
            asked.full_resource,
            asked.namespace,
            asked.path,
        )
        found = self._known.get(key)
        if found is None:
            found = next((headers for schema, headers in self._schemas if suits(schema, user, asked)), ())
            self._known.put(key, found)
        return found


def _headers(schema: FlowSchema, level_uid: str) -> Headers:
    return (_SCHEMA, schema.metadata.uid.encode()), (_LEVEL, level_uid.encode())


def suits(schema: FlowSchema, user: UserInfo, asked: Attributes) -> bool:
    """Whether a request is one of those that a FlowSchema is about."""
    return any(_rule_suits(rule, user, asked) for rule in schema.spec.rules)


def _rule_suits(rule: PolicyRulesWithSubjects, user: UserInfo, asked: Attributes) -> bool:
    if not any(_is_subject(subject, user) for subject in rule.subjects):
        return False
    if asked.path:
        return any(_path_suits(each, asked) for each in rule.non_resource_rules)
    return any(_resource_suits(each, asked) for each in rule.resource_rules)


def _is_subject(subject: Subject, user: UserInfo) -> bool:
    if subject.user is not None:
        return subject.user.name in (ALL, user.username)
    if subject.group is not None:
        return subject.group.name == ALL or subject.group.name in user.groups
    account = split_service_account(user.username)
    wanted = subject.service_account
    return (
        account is not None
        and wanted is not None
        and account[0] == wanted.namespace
        and wanted.name in (ALL, account[1])
    )


def _has(values: Sequence[str], value: str) -> bool:
    return value in values or ALL in values


def _resource_suits(rule: ResourcePolicyRule, asked: Attributes) -> bool:
    where = _has(rule.namespaces, asked.namespace) if asked.namespace else rule.cluster_scope
    return (
        where
        and _has(rule.verbs, asked.verb)
        and _has(rule.api_groups, asked.group)
        and _has(rule.resources, asked.full_resource)
    )


def _path_suits(rule: NonResourcePolicyRule, asked: Attributes) -> bool:
    if not _has(rule.verbs, asked.verb):
        return False
    return any(
        url in (ALL, asked.path) or (url.endswith(ALL) and asked.path.startswith(url[:-1]))
        for url in rule.non_resource_urls
    )
