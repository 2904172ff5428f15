"""Policies, bindings and requests for tests."""

from typing import Any

from app_calls import Answer, Caller

GROUP = "/apis/admissionregistration.k8s.io/v1"
API = "admissionregistration.k8s.io/v1"
Tree = dict[str, Any]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def rules(resource: str = "configmaps", *operations: str, group: str = "", version: str = "v1") -> Tree:
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": [*operations] or ["CREATE", "UPDATE"],
        "resources": [resource],
    }
    return {"resourceRules": [rule]}


def config_map(name: str = "x", **data: str) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def validating(name: str, *expressions: str, actions: tuple[str, ...] = ("Deny",), **spec: Any) -> list[Tree]:
    """Return a policy and its binding."""
    bound: Tree = {key: spec.pop(key) for key in ("paramRef", "matchResources") if key in spec}
    said: Tree = {"matchConstraints": rules(), "validations": [{"expression": each} for each in expressions], **spec}
    policy = {"apiVersion": API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": said}
    binding: Tree = {"policyName": name, "validationActions": [*actions], **bound}
    return [policy, _binding("ValidatingAdmissionPolicyBinding", name, binding)]


def mutating(name: str, *expressions: str, **spec: Any) -> list[Tree]:
    """Return a policy that applies configurations, and its binding."""
    mutations = [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}} for each in expressions
    ]
    said: Tree = {"matchConstraints": rules(), "reinvocationPolicy": "Never", "mutations": mutations, **spec}
    policy = {"apiVersion": API, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": said}
    return [policy, _binding("MutatingAdmissionPolicyBinding", name, {"policyName": name})]


def _binding(kind: str, name: str, spec: Tree) -> Tree:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def create(call: Caller, *objects: Tree) -> Answer:
    """Create policies and ConfigMaps; the last answer. All but the last must succeed."""
    *before, last = objects
    for each in before:
        answer = await call("POST", _path(each), each)
        assert answer.status == 201, answer.message
    return await call("POST", _path(last), last)


def _path(tree: Tree) -> str:
    if tree["kind"] == "ConfigMap":
        return CONFIG_MAPS
    plural = tree["kind"].lower()
    return f"{GROUP}/{plural}s" if plural.endswith("binding") else f"{GROUP}/{plural[:-1]}ies"
