"""Users with exactly the rights that an attack needs: `mallory = await user_with(call, rule("patch", "secrets"))`."""

from typing import Any

from app_calls import Caller

RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1/clusterroles"
BINDINGS = f"/apis/{RBAC}/v1/clusterrolebindings"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> dict[str, Any]:
    """Return a rule of a role; words are parted by spaces."""
    made: dict[str, Any] = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return made | ({"resourceNames": names.split()} if names else {})


def binding(name: str, role: str, user: str) -> dict[str, Any]:
    """Return a ClusterRoleBinding of a ClusterRole to a user."""
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


async def user_with(call: Caller, *rules: dict[str, Any], name: str = "mallory") -> Caller:
    """Create a user with these rules in the whole cluster and no others; `call` is the administrator."""
    made = await call("POST", ROLES, {"metadata": {"name": f"{name}-may"}, "rules": list(rules)})
    assert made.status == 201, made.message
    bound = await call("POST", BINDINGS, binding(f"{name}-may", f"{name}-may", name))
    assert bound.status == 201, bound.message
    return call.as_user(name)
