"""Impersonation: the `Impersonate-*` headers, which `kubectl --as` sends.

The client needs the verb `impersonate` on each user, group and extra value in the headers. The request is then
authorized as that of the impersonated user; the access log and the audit log name both users.
"""

from collections.abc import Mapping
from urllib.parse import unquote

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.access.authz import Attributes, Authorizer, require
from mooring.apiserver.messages import users

_PREFIX = "impersonate-"
_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_GROUP_OF_USERS = "authentication.k8s.io"


def find_impersonated_user(user: UserInfo, headers: Mapping[str, str], authorizer: Authorizer) -> UserInfo | None:
    """Return the user in the Impersonate headers; None without them.

    Raise Forbidden if the client may not impersonate that user, BadRequest if the headers name no user. Repeated
    headers (groups) are joined by line breaks, which cannot occur within a header.
    """
    if _PREFIX not in "\n".join(headers):  # one look at all of their names
        return None
    wanted = [name for name in headers if name.startswith(_PREFIX)]
    if not wanted:
        return None
    name = headers.get(_USER, "")
    if not name:
        raise errors.bad_request("requested impersonation of groups, uid or extra without impersonating a user")
    groups = [group for group in headers.get(_GROUP, "").split("\n") if group]
    uid = headers.get(_UID, "")
    extra = {unquote(key.removeprefix(_EXTRA)): headers[key].split("\n") for key in wanted if key.startswith(_EXTRA)}
    for attributes in _actions(name, groups, uid, extra):
        require(authorizer, user, attributes)
    return UserInfo(username=name, uid=uid, groups=_with_usual_groups(name, groups), extra=extra)


def _actions(name: str, groups: list[str], uid: str, extra: Mapping[str, list[str]]) -> list[Attributes]:
    account = users.split_service_account(name)
    if account:
        actions = [Attributes("impersonate", "", "serviceaccounts", "", *account)]
    else:
        actions = [Attributes("impersonate", "", "users", name=name)]
    actions += [Attributes("impersonate", "", "groups", name=group) for group in groups]
    if uid:
        actions.append(Attributes("impersonate", _GROUP_OF_USERS, "uids", name=uid))
    actions += [
        Attributes("impersonate", _GROUP_OF_USERS, "userextras", key, name=value)
        for key, values in extra.items()
        for value in values
    ]
    return actions


def _with_usual_groups(name: str, groups: list[str]) -> list[str]:
    """Return the groups and those that a user of this name always has, such as `system:authenticated`."""
    account = users.split_service_account(name)
    if account and not groups:
        groups = users.service_account_groups(account[0])
    usual = users.UNAUTHENTICATED if name == users.ANONYMOUS else users.AUTHENTICATED
    return groups if usual in groups else [*groups, usual]
