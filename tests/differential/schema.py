"""Random values that follow the published OpenAPI schema, often valid, often just not."""

from collections.abc import Mapping
from random import Random
from typing import Any

Tree = dict[str, Any]

_INTEGERS = (0, 1, 2, 3, 5, 10, 30, 80, 100, 443, 1000, 65535, 65536, -1, -2, 2**31 - 1, -(2**31))
_LONG_INTEGERS = (*_INTEGERS, 2**31, 2**63 - 1, -(2**63))
_QUANTITIES = ("0", "1", "100m", "1Gi", "500Mi", "1.5", "-1", "1e3", "2k", "0.1", "1n", "10")
_STRINGS = (
    "",
    "a",
    "x",
    "abc",
    "A",
    "a.b",
    "a-b",
    "-a",
    "a/b",
    "a b",
    "a.example.com/b",
    "UPPER",
    "0",
    "1",
    "ä",
    "a" * 64,
)
_BY_NAME: Mapping[str, tuple[str, ...]] = {
    "name": ("a", "x", "web", "data", "Bad_Name", "", "a.b", "a" * 64, "a" * 254),
    "namespace": ("default", "other", "", "Bad_NS"),
    "key": ("a", "app", "topology.kubernetes.io/zone", "a.example.com/b", "", "bad key", "metadata.name"),
    "value": ("", "a", "5", "-1", "007", "1.2.3", "bad value"),
    "values": ("", "a", "5", "bad value"),
    "path": ("/", "/x", "x", "../x", "a/b", "", "a:b"),
    "mountPath": ("/", "/x", "x", "", "/a:b"),
    "ip": ("10.0.0.1", "::1", "127.0.0.1", "0.0.0.0", "1.2.3", "010.0.0.1", "169.254.1.1", "224.0.0.1", ""),
    "clusterIP": ("None", "", "10.0.0.77", "10.1.0.1", "::1", "bad"),
    "clusterIPs": ("None", "", "10.0.0.77", "::1"),
    "cidr": ("10.0.0.0/8", "10.0.0.1/8", "::/0", "10.0.0.0", "0.0.0.0/0", ""),
    "cidrs": ("10.0.0.0/8", "10.96.0.0/24", "10.0.0.1/24", "fd00::/64", "bad"),
    "image": ("i", "a/b:1", "", " i", "i@sha256:" + "0" * 64),
    "schedule": ("* * * * *", "@daily", "@every 1h", "bad", "TZ=UTC * * * * *", "61 * * * *", ""),
    "timeZone": ("UTC", "Europe/Berlin", "Bad/Zone", "Local", ""),
    "expression": ("true", "1 +", "object.metadata.name != ''", "1", "device.driver == 'x'", ""),
    "topologyKey": ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "", "bad key"),
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", "Bad", ""),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", "Bad", ""),
    "host": ("example.com", "*.example.com", "*", "a..b", "10.0.0.1", ""),
    "apiVersion": ("v1", "apps/v1", "a/b/c", ""),
    "kind": ("Pod", "Deployment", "User", "Group", "ServiceAccount", ""),
    "verbs": ("get", "*", "list", ""),
    "apiGroups": ("", "apps", "*"),
    "resources": ("pods", "*", "pods/status", "*/scale", ""),
    "nonResourceURLs": ("/healthz", "*", "/a/*", "a", "/*a"),
    "schedulerName": ("default-scheduler", "other", ""),
    "nodeName": ("n1", "", "Bad_Node"),
    "type": ("Container", "Pod", "PersistentVolumeClaim", "Bad", ""),
    "time": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "bad", ""),
    "fieldPath": ("metadata.name", "metadata.labels['a']", "spec.nodeName", "status.podIP", "bad", ""),
    "resource": ("limits.cpu", "requests.memory", "limits.bad", "pods", ""),
    "accessModes": ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod", "Bad"),
    "finalizers": ("a.example.com/b", "kubernetes", "bad name", "foregroundDeletion"),
}
_MAP_KEYS = (
    "a",
    "app",
    "cpu",
    "memory",
    "storage",
    "a.example.com/b",
    "hugepages-2Mi",
    "ephemeral-storage",
    "bad key",
    "pods",
)
_MAX_DEPTH = 7


class Schema:
    """The definitions of an OpenAPI v2 document."""

    def __init__(self, document: Tree) -> None:
        self._definitions: Tree = document["definitions"]
        self._kinds: dict[tuple[str, str], str] = {}
        for name, definition in self._definitions.items():
            for each in definition.get("x-kubernetes-group-version-kind", ()):
                group_version = f"{each['group']}/{each['version']}" if each["group"] else each["version"]
                self._kinds.setdefault((group_version, each["kind"]), name)

    def kind(self, api_version: str, kind: str) -> Tree | None:
        """Return the schema of a kind, or None if the server does not publish it."""
        name = self._kinds.get((api_version, kind))
        return None if name is None else self._definitions[name]

    def resolve(self, schema: Tree) -> Tree:
        """Follow a reference."""
        reference = schema.get("$ref")
        return schema if reference is None else self._definitions[reference.removeprefix("#/definitions/")]

    def properties(self, schema: Tree) -> Mapping[str, Tree]:
        found: Mapping[str, Tree] = self.resolve(schema).get("properties") or {}
        return found

    def random_value(self, rng: Random, schema: Tree, name: str = "", depth: int = 0) -> Any:
        """Return a value for a schema; sometimes one of another type, a null, or an unknown enum value."""
        if rng.random() < 0.01:
            return rng.choice((None, "x", 1, True, [], {}))
        reference = schema.get("$ref", "")
        schema = self.resolve(schema)
        if reference.endswith("Quantity"):
            return rng.choice(_QUANTITIES)
        if reference.endswith("IntOrString"):
            return rng.choice((0, 1, 80, "50%", "http", "101%", "-1%", -1, 65536, "bad_port"))
        if reference.endswith(("v1.Time", "MicroTime")):
            return rng.choice(_BY_NAME["time"])
        return self._typed(rng, schema, name, depth)

    def _typed(self, rng: Random, schema: Tree, name: str, depth: int) -> Any:
        if schema.get("enum") and rng.random() < 0.93:
            return rng.choice(schema["enum"])
        match schema.get("type"):
            case "string":
                return self._string(rng, schema, name)
            case "integer":
                return rng.choice(_LONG_INTEGERS if schema.get("format") == "int64" else _INTEGERS)
            case "boolean":
                return rng.random() < 0.5
            case "number":
                return rng.choice((0, 1.5, -1))
            case "array":
                size = rng.choice((0, 1, 1, 1, 2, 3)) if depth < _MAX_DEPTH else 0
                return [self.random_value(rng, schema["items"], name, depth + 1) for _ in range(size)]
        if "additionalProperties" in schema:
            keys = rng.sample(_MAP_KEYS, rng.choice((0, 1, 1, 2)))
            return {key: self.random_value(rng, schema["additionalProperties"], "value", depth + 1) for key in keys}
        return self._object(rng, schema, depth)

    def _string(self, rng: Random, schema: Tree, name: str) -> str:
        if schema.get("format") == "byte":
            return rng.choice(("", "YQ==", "bad", "YWJj"))
        pool = _BY_NAME.get(name)
        return rng.choice(pool if pool and rng.random() < 0.85 else _STRINGS)

    def _object(self, rng: Random, schema: Tree, depth: int) -> Tree:
        properties, required = schema.get("properties") or {}, set(schema.get("required") or ())
        if not properties:
            return {}
        chance = min(1.0, (2.5 if depth < 3 else 1.2) / len(properties))
        found = {}
        for name, part in properties.items():
            wanted = rng.random() < 0.97 if name in required else depth < _MAX_DEPTH and rng.random() < chance
            if wanted and name not in ("status", "managedFields"):
                found[name] = self.random_value(rng, part, name, depth + 1)
        if rng.random() < 0.01:
            found["unknownField"] = 1
        return found
