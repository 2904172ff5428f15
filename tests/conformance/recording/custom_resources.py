"""Records what Kubernetes answers to definitions of custom kinds and to their objects, good and bad.

    python tests/conformance/recording/custom_resources.py KUBECONFIG > …/data/api/custom-resources.jsonl

KUBECONFIG is that of a fresh kube-apiserver that takes a token (shared/real/control-plane.sh starts one). Recorded from
v1.37. A line has the form of api/requests.jsonl, with `contentType` where a body is no JSON object. Requests are made
in order: later ones speak of what earlier ones have made. `requests()` returns all of them.
"""

import copy
import http.client
import json
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

Tree = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "recorded.example.com"
DRY = "dryRun=All"
_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp")


def crd(plural: str, kind: str, schema: Tree | None, **version: Any) -> Tree:
    first = {"name": "v1", "served": True, "storage": True, **version}
    if schema is not None:
        first["schema"] = {"openAPIV3Schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [first],
        },
    }


def obj(**properties: Any) -> Tree:
    return {"type": "object", "properties": properties}


def rules(*validations: Tree, **schema: Any) -> Tree:
    return {**schema, "x-kubernetes-validations": list(validations)}


TEXT, NUMBER, INTEGER, BOOL = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}


def bad_schemas() -> Iterator[tuple[str, Tree]]:
    """Schemas by what is odd about them; some are right."""
    plain = {"type": "object"}
    yield "empty", {}
    yield "root-string", {"type": "string"}
    yield "root-nullable", {"type": "object", "nullable": True}
    yield "no-type-property", obj(a={})
    yield "no-type-items", obj(a={"type": "array", "items": {}})
    yield "array-without-items", obj(a={"type": "array"})
    yield "unknown-type", obj(a={"type": "map"})
    yield "null-type", obj(a={"type": "null"})
    yield "ref", {"type": "object", "$ref": "#/definitions/x"}
    yield "id", {"type": "object", "id": "x"}
    yield "definitions", {"type": "object", "definitions": {"a": TEXT}}
    yield "dependencies", {"type": "object", "dependencies": {"a": ["b"]}}
    yield "pattern-properties", {"type": "object", "patternProperties": {"a": TEXT}}
    yield "additional-items", {"type": "object", "additionalItems": True}
    yield "unique-items", obj(a={"type": "array", "uniqueItems": True, "items": TEXT})
    yield "items-array", obj(a={"type": "array", "items": [TEXT]})
    yield "additional-at-root", {"type": "object", "additionalProperties": TEXT}
    yield (
        "additional-and-properties",
        obj(a={"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT}),
    )
    yield (
        "additional-true-and-properties",
        obj(a={"type": "object", "properties": {"b": TEXT}, "additionalProperties": True}),
    )
    yield "bad-pattern", obj(a={"type": "string", "pattern": "(a"})
    yield "good-pattern", obj(a={"type": "string", "pattern": "^a+$"})
    yield "preserve-false", obj(a={"type": "object", "x-kubernetes-preserve-unknown-fields": False})
    yield "preserve-true", obj(a={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    yield "int-or-string", obj(a={"x-kubernetes-int-or-string": True})
    yield "int-or-string-any-of", obj(a={"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, TEXT]})
    yield (
        "int-or-string-preserve",
        obj(a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}),
    )
    yield "any-of-types", obj(a={"anyOf": [INTEGER, TEXT]})
    yield "any-of-description", obj(a={"type": "string", "anyOf": [{"description": "x", "pattern": "a"}]})
    yield "all-of-unknown-property", {**obj(a=plain), "allOf": [{"properties": {"b": {"minLength": 1}}}]}
    yield "one-of-required", obj(a={**obj(b=TEXT, c=TEXT), "oneOf": [{"required": ["b"]}, {"required": ["c"]}]})
    yield "not-nullable", obj(a={"type": "string", "not": {"nullable": True}})
    yield "nested-default", obj(a={"type": "string", "allOf": [{"default": "x"}]})
    yield "nested-metadata", {**obj(metadata=plain), "allOf": [{"properties": {"metadata": {"minProperties": 1}}}]}
    yield "metadata-name", obj(metadata=obj(name={"type": "string", "maxLength": 5}))
    yield "metadata-labels", obj(metadata=obj(labels={"type": "object", "additionalProperties": TEXT}))
    yield "metadata-default", obj(metadata={"type": "object", "default": {}})
    yield "kind-integer", obj(kind=INTEGER)
    yield (
        "embedded",
        obj(a={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}),
    )
    yield "embedded-empty", obj(a={"type": "object", "x-kubernetes-embedded-resource": True})
    yield "embedded-string", obj(a={"type": "string", "x-kubernetes-embedded-resource": True})
    yield "list-type-of-object", obj(a={"type": "object", "x-kubernetes-list-type": "set"})
    yield "list-type-unknown", obj(a={"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"})
    yield "set-of-objects", obj(a={"type": "array", "items": plain, "x-kubernetes-list-type": "set"})
    yield (
        "set-of-atomic-objects",
        obj(
            a={
                "type": "array",
                "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
                "x-kubernetes-list-type": "set",
            }
        ),
    )
    keyed = {"type": "array", "x-kubernetes-list-type": "map"}
    yield "map-without-keys", obj(a={**keyed, "items": plain})
    yield "map-of-strings", obj(a={**keyed, "items": TEXT, "x-kubernetes-list-map-keys": ["k"]})
    yield "map-unknown-key", obj(a={**keyed, "items": obj(b=TEXT), "x-kubernetes-list-map-keys": ["k"]})
    yield "map-optional-key", obj(a={**keyed, "items": obj(k=TEXT), "x-kubernetes-list-map-keys": ["k"]})
    yield (
        "map-object-key",
        obj(a={**keyed, "items": {**obj(k=plain), "required": ["k"]}, "x-kubernetes-list-map-keys": ["k"]}),
    )
    yield (
        "map-double-key",
        obj(a={**keyed, "items": {**obj(k=TEXT), "required": ["k"]}, "x-kubernetes-list-map-keys": ["k", "k"]}),
    )
    yield (
        "map-nullable-key",
        obj(
            a={
                **keyed,
                "items": {**obj(k={"type": "string", "nullable": True}), "required": ["k"], "nullable": True},
                "x-kubernetes-list-map-keys": ["k"],
            }
        ),
    )
    yield "keys-without-type", obj(a={"type": "array", "items": obj(k=TEXT), "x-kubernetes-list-map-keys": ["k"]})
    yield "map-type-of-string", obj(a={"type": "string", "x-kubernetes-map-type": "atomic"})
    yield "map-type-unknown", obj(a={"type": "object", "x-kubernetes-map-type": "x"})
    yield "default-wrong-type", obj(a={"type": "string", "default": 5})
    yield "default-unknown-field", obj(a={**obj(b=TEXT), "default": {"c": 1}})
    yield "default-below-minimum", obj(a={"type": "integer", "minimum": 3, "default": 1})
    yield "default-in-api-version", obj(apiVersion={"type": "string", "default": "x"})
    yield "unknown-format", obj(a={"type": "string", "format": "nonsense"}, b={"type": "integer", "format": "int16"})
    yield "unknown-keyword", obj(a={"type": "string", "strange": True})


def bad_rules() -> Iterator[tuple[str, Tree]]:
    """Schemas with rules in CEL."""
    yield "rule-good", rules({"rule": "self.a > 1"}, **obj(a=INTEGER))
    yield "rule-empty", rules({"rule": " "}, **obj(a=INTEGER))
    yield "rule-no-field", rules({"rule": "self.b > 1"}, **obj(a=INTEGER))
    yield "rule-syntax", rules({"rule": "self.a >"}, **obj(a=INTEGER))
    yield "rule-not-bool", rules({"rule": "self.a"}, **obj(a=INTEGER))
    yield "rule-wrong-overload", rules({"rule": "self.a > 'x'"}, **obj(a=INTEGER))
    yield "rule-unknown-function", rules({"rule": "self.a.foo()"}, **obj(a=TEXT))
    yield "rule-message-blank", rules({"rule": "true", "message": " "}, **obj(a=INTEGER))
    yield "rule-message-break", rules({"rule": "true", "message": "a\nb"}, **obj(a=INTEGER))
    yield "rule-break-without-message", rules({"rule": "true &&\ntrue"}, **obj(a=INTEGER))
    yield "rule-reason", rules({"rule": "true", "reason": "Nonsense"}, **obj(a=INTEGER))
    yield "rule-path", rules({"rule": "true", "fieldPath": ".b"}, **obj(a=INTEGER))
    yield "rule-path-good", rules({"rule": "true", "fieldPath": ".a"}, **obj(a=INTEGER))
    yield "rule-message-expression", rules({"rule": "true", "messageExpression": "5"}, **obj(a=INTEGER))
    yield "rule-message-expression-error", rules({"rule": "true", "messageExpression": "self.x"}, **obj(a=INTEGER))
    yield (
        "rule-old-self-in-list",
        obj(
            a={"type": "array", "maxItems": 3, "items": rules({"rule": "self == oldSelf"}, type="string", maxLength=3)}
        ),
    )
    yield "rule-optional-unused", rules({"rule": "true", "optionalOldSelf": True}, **obj(a=INTEGER))
    yield (
        "rule-optional",
        rules({"rule": "!oldSelf.hasValue() || self.a > 1", "optionalOldSelf": True}, **obj(a=INTEGER)),
    )
    listed: Tree = {"type": "array", "items": rules({"rule": "self.matches('^a*$')"}, type="string")}
    yield "rule-unbounded-list", obj(a=listed)
    yield "rule-bounded-list", obj(a={**listed, "maxItems": 10, "items": {**listed["items"], "maxLength": 10}})
    yield (
        "rule-quadratic",
        rules({"rule": "self.a.all(x, self.a.all(y, x == y))"}, **obj(a={"type": "array", "items": TEXT})),
    )
    yield (
        "rule-quadratic-bounded",
        rules(
            {"rule": "self.a.all(x, self.a.all(y, x == y))"},
            **obj(a={"type": "array", "maxItems": 300, "items": {"type": "string", "maxLength": 100}}),
        ),
    )
    yield (
        "rule-map",
        rules(
            {"rule": "self.a.all(k, self.a[k].startsWith(k))"},
            **obj(a={"type": "object", "additionalProperties": TEXT}),
        ),
    )
    yield (
        "rule-map-bounded",
        rules(
            {"rule": "self.a.all(k, self.a[k].startsWith(k))"},
            **obj(
                a={"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 64}}
            ),
        ),
    )
    yield (
        "rule-total",
        obj(
            **{
                f"f{number}": {
                    "type": "array",
                    "maxItems": 1000,
                    "items": rules({"rule": "self.size() < 5 && self.contains('a')"}, type="string", maxLength=20000),
                }
                for number in range(12)
            }
        ),
    )
    yield "rule-in-all-of", obj(a={"type": "string", "allOf": [rules({"rule": "true"})]})
    yield (
        "rule-escaped",
        rules(
            {"rule": "self.__namespace__ == 'x' && self.a__dash__b == 1"},
            type="object",
            properties={"namespace": TEXT, "a-b": INTEGER},
        ),
    )
    yield "rule-metadata", rules({"rule": "self.metadata.name.startsWith('a') && self.kind == 'X'"}, type="object")
    yield "rule-metadata-labels", rules({"rule": "self.metadata.labels.size() > 0"}, type="object")
    yield (
        "rule-formats",
        rules(
            {
                "rule": "self.t > timestamp('2020-01-01T00:00:00Z') && self.d < duration('1h') && "
                "self.b.size() > 1 && self.e == timestamp('2020-01-01T00:00:00Z')"
            },
            **obj(
                t={"type": "string", "format": "date-time"},
                d={"type": "string", "format": "duration"},
                b={"type": "string", "format": "byte"},
                e={"type": "string", "format": "date"},
            ),
        ),
    )
    yield (
        "rule-int-or-string",
        rules({"rule": "type(self.a) == int || self.a == '5%'"}, **obj(a={"x-kubernetes-int-or-string": True})),
    )
    yield (
        "rule-preserve",
        rules({"rule": "self.a.b == 1"}, **obj(a={"type": "object", "x-kubernetes-preserve-unknown-fields": True})),
    )
    yield "rule-default-broken", obj(a={**rules({"rule": "self > 3"}, type="integer"), "default": 1})
    yield (
        "rule-libraries",
        rules(
            {
                "rule": "isQuantity(self.a) && quantity(self.a).isGreaterThan(quantity('1')) && isIP(self.a)"
                " && semver('1.0.0').isLessThan(semver('1.2.3'))"
            },
            **obj(a={"type": "string", "maxLength": 20}),
        ),
    )


def bad_definitions() -> Iterator[tuple[str, Tree]]:
    """Definitions that are odd outside of their schema."""
    schema = {"type": "object"}

    def changed(**spec: Any) -> Tree:
        made = crd("things", "Thing", schema)
        made["spec"] |= spec
        return made

    yield "no-schema", crd("things", "Thing", None)
    yield "no-group", changed(group="")
    yield "group-without-dot", {**changed(group="example"), "metadata": {"name": "things.example"}}
    yield "group-upper", {**changed(group="Example.com"), "metadata": {"name": "things.Example.com"}}
    yield "name-mismatch", {**crd("things", "Thing", schema), "metadata": {"name": "other.recorded.example.com"}}
    yield "no-scope", changed(scope="")
    yield "bad-scope", changed(scope="Everywhere")
    yield "no-names", changed(names={})
    yield (
        "names-upper",
        changed(
            names={"plural": "things", "kind": "Thing", "singular": "Thing", "shortNames": ["A_b"], "categories": ["X"]}
        ),
    )
    yield "kind-space", changed(names={"plural": "things", "kind": "A Thing"})
    yield "list-kind-same", changed(names={"plural": "things", "kind": "Thing", "listKind": "Thing"})
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    yield "no-versions", changed(versions=[])
    yield "no-storage", changed(versions=[{**version, "storage": False}])
    yield "two-storages", changed(versions=[version, {**version, "name": "v2"}])
    yield "double-version", changed(versions=[version, {**version, "storage": False}])
    yield "version-name", changed(versions=[{**version, "name": "V1"}])
    yield "deprecation-without", changed(versions=[{**version, "deprecationWarning": "x"}])
    yield "deprecation-empty", changed(versions=[{**version, "deprecated": True, "deprecationWarning": ""}])
    yield "preserve", changed(preserveUnknownFields=True)
    yield "scale-empty", changed(versions=[{**version, "subresources": {"scale": {}}}])
    yield (
        "scale-elsewhere",
        changed(
            versions=[
                {
                    **version,
                    "subresources": {
                        "scale": {"specReplicasPath": ".status.a", "statusReplicasPath": "x", "labelSelectorPath": ".a"}
                    },
                }
            ]
        ),
    )
    yield (
        "status-with-root-conditions",
        changed(
            versions=[
                {
                    **version,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "minProperties": 1}},
                }
            ]
        ),
    )
    yield (
        "columns",
        changed(
            versions=[
                {
                    **version,
                    "additionalPrinterColumns": [{}, {"name": "a", "type": "x", "format": "y", "jsonPath": "z"}],
                }
            ]
        ),
    )
    fields = obj(a=TEXT, b=obj(c=INTEGER), d={"type": "array", "items": TEXT})
    yield (
        "selectable",
        changed(
            versions=[
                {
                    **version,
                    "schema": {"openAPIV3Schema": fields},
                    "selectableFields": [
                        {"jsonPath": ".a"},
                        {"jsonPath": ".a"},
                        {"jsonPath": ".b"},
                        {"jsonPath": ".d"},
                        {"jsonPath": ".x"},
                        {"jsonPath": ""},
                        {"jsonPath": ".metadata.name"},
                        {"jsonPath": ".d[0]"},
                    ],
                }
            ]
        ),
    )
    yield (
        "conversion-none-with-webhook",
        changed(
            conversion={
                "strategy": "None",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}},
            }
        ),
    )
    yield "conversion-unknown", changed(conversion={"strategy": "Magic"})
    yield "conversion-without-webhook", changed(conversion={"strategy": "Webhook"})
    yield (
        "conversion-url-and-service",
        changed(
            conversion={
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://x", "service": {"name": "a", "namespace": "b"}},
                },
            }
        ),
    )
    yield (
        "conversion-http",
        changed(
            conversion={
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v2", "v2"], "clientConfig": {"url": "http://u:p@x/y?z#f"}},
            }
        ),
    )
    yield (
        "conversion-service",
        changed(
            conversion={
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": [],
                    "clientConfig": {"service": {"name": "", "namespace": "", "port": 70000, "path": "a//B"}},
                },
            }
        ),
    )
    yield "protected-group", {**changed(group="x.k8s.io"), "metadata": {"name": "things.x.k8s.io"}}
    yield (
        "protected-group-wrong",
        {
            **changed(group="x.k8s.io"),
            "metadata": {"name": "things.x.k8s.io", "annotations": {"api-approved.kubernetes.io": "nonsense"}},
        },
    )
    yield (
        "protected-group-bypassed",
        {
            **changed(group="x.k8s.io"),
            "metadata": {
                "name": "things.x.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
            },
        },
    )
    shared = [
        version,
        {**version, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": obj(a={"type": "array"})}},
    ]
    yield "second-schema-wrong", changed(versions=shared)


SAMPLE: Tree = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name"],
            "minProperties": 1,
            "maxProperties": 30,
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "level": {"type": "integer", "enum": [1, 2]},
                "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "multipleOf": 2},
                "open": {
                    "type": "integer",
                    "exclusiveMinimum": True,
                    "minimum": 0,
                    "exclusiveMaximum": True,
                    "maximum": 5,
                },
                "big": {"type": "integer"},
                "ratio": {"type": "number", "minimum": 0.5, "maximum": 2.5, "multipleOf": 0.5},
                "flag": {"type": "boolean"},
                "maybe": {"type": "string", "nullable": True},
                "either": {"x-kubernetes-int-or-string": True},
                "when": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "long": {"type": "string", "format": "duration"},
                "raw": {"type": "string", "format": "byte"},
                "host": {"type": "string", "format": "hostname"},
                "mail": {"type": "string", "format": "email"},
                "link": {"type": "string", "format": "uri"},
                "four": {"type": "string", "format": "ipv4"},
                "six": {"type": "string", "format": "ipv6"},
                "net": {"type": "string", "format": "cidr"},
                "id": {"type": "string", "format": "uuid"},
                "short": {"type": "string", "format": "k8s-short-name"},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {
                    "type": "object",
                    "maxProperties": 2,
                    "additionalProperties": {"type": "string", "maxLength": 3},
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "minItems": 1,
                    "maxItems": 3,
                    "items": {"type": "string"},
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a", "b"],
                    "items": {**obj(a=TEXT, b={"type": "integer", "default": 0}, c=TEXT), "required": ["a"]},
                },
                "one": {**obj(x=TEXT, y=TEXT), "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
                "some": {
                    **obj(x=INTEGER, y=INTEGER),
                    "anyOf": [{"properties": {"x": {"minimum": 5}}, "required": ["x"]}, {"required": ["y"]}],
                },
                "all": {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}]},
                "never": {"type": "string", "not": {"enum": ["bad"]}},
                "embedded": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "inner": {**obj(deep={"type": "string", "default": "here"}), "default": {}},
            },
        },
        "status": {**obj(phase={"type": "string", "enum": ["A", "B"]}, replicas=INTEGER, selector=TEXT)},
    },
}

BAD_SPECS: dict[str, Tree] = {
    "good": {},
    "missing-name": {"name": None},
    "name-short": {"name": "a"},
    "name-long": {"name": "abcdef"},
    "name-pattern": {"name": "AB"},
    "name-number": {"name": 5},
    "name-object": {"name": {"a": 1}},
    "color": {"color": "blue"},
    "color-number": {"color": 1},
    "level": {"level": 3},
    "level-float": {"level": 1.0},
    "count-low": {"count": 0},
    "count-high": {"count": 12},
    "count-odd": {"count": 3},
    "count-string": {"count": "4"},
    "count-float": {"count": 2.5},
    "count-whole-float": {"count": 4.0},
    "count-int64": {"count": 4294967296},
    "count-bool": {"count": True},
    "open-low": {"open": 0},
    "open-high": {"open": 5},
    "big-64": {"big": 9223372036854775807},
    "ratio-low": {"ratio": 0.1},
    "ratio-high": {"ratio": 3},
    "ratio-odd": {"ratio": 0.7},
    "ratio-int": {"ratio": 2},
    "flag-string": {"flag": "true"},
    "maybe-null": {"maybe": None},
    "color-null": {"color": None},
    "flag-null": {"flag": None},
    "either-int": {"either": 5},
    "either-string": {"either": "5%"},
    "either-bool": {"either": True},
    "either-list": {"either": [1]},
    "when": {"when": "yesterday"},
    "when-good": {"when": "2020-01-02T03:04:05Z"},
    "when-number": {"when": 5},
    "day": {"day": "2020-13-01"},
    "long": {"long": "x"},
    "long-good": {"long": "1h30m"},
    "raw": {"raw": "***"},
    "host": {"host": "a_b"},
    "mail": {"mail": "x"},
    "link": {"link": "nonsense"},
    "four": {"four": "::1"},
    "six": {"six": "1.2.3.4"},
    "net": {"net": "1.2.3.4"},
    "id": {"id": "x"},
    "short": {"short": "A"},
    "any": {"any": {"x": {"y": [1, "a", None]}}},
    "any-string": {"any": "x"},
    "labels-many": {"labels": {"a": "1", "b": "2", "c": "3"}},
    "labels-long": {"labels": {"a": "1234"}},
    "labels-type": {"labels": {"a": 1}},
    "labels-null": {"labels": {"a": None}},
    "tags-empty": {"tags": []},
    "tags-many": {"tags": ["a", "b", "c", "d"]},
    "tags-double": {"tags": ["a", "b", "a"]},
    "tags-type": {"tags": ["a", 1]},
    "tags-null": {"tags": ["a", None]},
    "tags-object": {"tags": {"a": 1}},
    "parts-default": {"parts": [{"a": "x"}, {"a": "x", "b": 1}]},
    "parts-double": {"parts": [{"a": "x"}, {"a": "x", "b": 0}]},
    "parts-missing": {"parts": [{"b": 1}]},
    "parts-scalar": {"parts": ["x"]},
    "one-none": {"one": {}},
    "one-both": {"one": {"x": "a", "y": "b"}},
    "one-good": {"one": {"x": "a"}},
    "some-none": {"some": {}},
    "some-wrong": {"some": {"x": 1}},
    "some-good": {"some": {"x": 1, "y": 2}},
    "all-short": {"all": "a"},
    "all-long": {"all": "abcd"},
    "never": {"never": "bad"},
    "embedded-empty": {"embedded": {}},
    "embedded-good": {
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "strange": 1}, "spec": {"a": 1}}
    },
    "embedded-bad": {"embedded": {"apiVersion": 5, "kind": "", "metadata": {"name": "a/b", "labels": {"a b": "c"}}}},
    "unknown": {"strange": 1, "inner": {"odd": 2}},
    "several": {"name": "A", "count": "x", "color": "blue", "tags": [1, 1]},
}


def sample(title: str, **spec: Any) -> Tree:
    full = {"name": "abc", **spec}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Sample",
        "metadata": {"name": title},
        "spec": {key: value for key, value in full.items() if not (key == "name" and value is None)},
    }


RULED: Tree = {
    "type": "object",
    "x-kubernetes-validations": [{"rule": "self.metadata.name.size() < 10", "message": "the name is long"}],
    "properties": {
        "spec": rules(
            {
                "rule": "self.low <= self.high",
                "messageExpression": "'low is above ' + string(self.high)",
                "fieldPath": ".low",
            },
            {"rule": "self.mode == oldSelf.mode", "message": "mode is fixed", "reason": "FieldValueForbidden"},
            {"rule": "!(has(self.gone)) || self.gone != 'x'", "reason": "FieldValueDuplicate", "fieldPath": ".gone"},
            {"rule": "oldSelf.hasValue() || self.low > 0", "optionalOldSelf": True},
            {"rule": "self.list.all(x, 10 / x > 0)"},
            type="object",
            properties={
                "low": {"type": "integer", "maximum": 100},
                "high": {"type": "integer"},
                "mode": {"type": "string", "maxLength": 10},
                "gone": {"type": "string", "maxLength": 10},
                "list": {
                    "type": "array",
                    "maxItems": 10,
                    "default": [],
                    "items": rules({"rule": "self < 50"}, type="integer"),
                },
                "map": {
                    "type": "object",
                    "maxProperties": 5,
                    "additionalProperties": rules({"rule": "self.startsWith('v')"}, type="string", maxLength=5),
                },
                "either": {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [{"rule": "self < 5"}]},
            },
        )
    },
}


def ruled(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Ruled",
        "metadata": {"name": name},
        "spec": {"low": 1, "high": 2, "mode": "a", **spec},
    }


def requests() -> Iterator[Tree]:
    """Every request, in order."""
    for name, schema in bad_schemas():
        yield create(f"schema-{name}", DEFINITIONS, crd("things", "Thing", schema), DRY)
    for name, schema in bad_rules():
        yield create(name, DEFINITIONS, crd("things", "Thing", schema), DRY)
    for name, definition in bad_definitions():
        yield create(f"crd-{name}", DEFINITIONS, definition, DRY)
    yield from _samples()
    yield from _ruled()
    yield from _changes()


def _samples() -> Iterator[Tree]:
    subresources = {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.big",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    samples = f"/apis/{GROUP}/v1/namespaces/default/samples"
    yield create("define-samples", DEFINITIONS, crd("samples", "Sample", SAMPLE, subresources=subresources))
    for name, spec in BAD_SPECS.items():
        yield create(f"sample-{name}", samples, sample("x", **spec), DRY)
    yield create("sample-strict", samples, sample("x", strange=1), f"{DRY}&fieldValidation=Strict")
    yield create("sample-no-spec", samples, {**sample("x"), "spec": None}, DRY)
    yield create("sample-spec-string", samples, {**sample("x"), "spec": "x"}, DRY)
    yield create("sample-bad-name", samples, sample("A_B"), DRY)
    yield create("sample-bad-label", samples, {**sample("x"), "metadata": {"name": "x", "labels": {"a b": "c d"}}}, DRY)
    yield create("sample-label-number", samples, {**sample("x"), "metadata": {"name": "x", "labels": {"a": 1}}}, DRY)
    yield create("sample-finalizer", samples, {**sample("x"), "metadata": {"name": "x", "finalizers": ["plain"]}}, DRY)
    yield create("sample-wrong-kind", samples, {**sample("x"), "kind": "Other"}, DRY)
    yield create("sample-wrong-version", samples, {**sample("x"), "apiVersion": f"{GROUP}/v2"}, DRY)
    yield create(
        "sample-resource-version", samples, {**sample("x"), "metadata": {"name": "x", "resourceVersion": "5"}}, DRY
    )
    yield create("sample-dry-run-wrong", samples, sample("x"), "dryRun=Yes")
    yield create("sample-made", samples, sample("made", count=4, tags=["a", "b"]))
    yield create("sample-again", samples, sample("made"))
    one = f"{samples}/made"
    yield change("put-without-version", "PUT", one, sample("made"))
    yield change("put-wrong-name", "PUT", one, sample("other"))
    yield change("merge-count", "PATCH", one, {"spec": {"count": 6}}, "application/merge-patch+json")
    yield change("merge-wrong", "PATCH", one, {"spec": {"count": 7, "name": None}}, "application/merge-patch+json")
    yield change("strategic", "PATCH", one, {"spec": {"count": 8}}, "application/strategic-merge-patch+json")
    yield change(
        "json-replace",
        "PATCH",
        one,
        [{"op": "replace", "path": "/spec/count", "value": 8}],
        "application/json-patch+json",
    )
    yield change(
        "json-missing", "PATCH", one, [{"op": "remove", "path": "/spec/nothing"}], "application/json-patch+json"
    )
    yield change(
        "json-test", "PATCH", one, [{"op": "test", "path": "/spec/count", "value": 1}], "application/json-patch+json"
    )
    yield change(
        "status-wrong",
        "PATCH",
        f"{one}/status",
        {"status": {"phase": "C", "replicas": "x"}},
        "application/merge-patch+json",
    )
    yield change(
        "status-good",
        "PATCH",
        f"{one}/status",
        {"status": {"phase": "A", "replicas": 3, "selector": "a=b"}, "spec": {"count": 2}},
        "application/merge-patch+json",
    )
    yield change("scale-get", "GET", f"{one}/scale", None)
    yield change("scale-patch", "PATCH", f"{one}/scale", {"spec": {"replicas": 7}}, "application/merge-patch+json")
    yield change("scale-negative", "PATCH", f"{one}/scale", {"spec": {"replicas": -1}}, "application/merge-patch+json")
    yield change("get-made", "GET", one, None)
    yield change("get-nothing", "GET", f"{samples}/nothing", None)
    yield {**change("field-selector", "GET", samples, None), "query": "fieldSelector=spec.count=1"}
    yield change("delete-made", "DELETE", one, None)


def _ruled() -> Iterator[Tree]:
    place = f"/apis/{GROUP}/v1/namespaces/default/ruleds"
    yield create("define-ruleds", DEFINITIONS, crd("ruleds", "Ruled", RULED))
    specs: dict[str, Tree] = {
        "good": {},
        "low": {"low": 5},
        "gone": {"gone": "x"},
        "first": {"low": 0},
        "division": {"list": [0]},
        "items": {"list": [1, 60]},
        "values": {"map": {"a": "v", "b": "x"}},
        "either": {"either": 7},
        "either-text": {"either": "x"},
        "blocked": {"low": "x", "list": [60]},
        "maximum": {"low": 200, "high": 300},
    }
    for name, spec in specs.items():
        yield create(f"ruled-{name}", place, ruled("x", **spec), DRY)
    yield create("ruled-long-name", place, ruled("x" * 12), DRY)
    yield create("ruled-made", place, ruled("made", list=[5]))
    merge = "application/merge-patch+json"
    yield change("ruled-mode", "PATCH", f"{place}/made", {"spec": {"mode": "b"}}, merge)
    yield change("ruled-zero", "PATCH", f"{place}/made", {"spec": {"low": 0}}, merge)


def _changes() -> Iterator[Tree]:
    """Yield what a change of a definition forgives."""
    merge = "application/merge-patch+json"
    loose, tight = obj(spec=obj(a=TEXT, b=TEXT)), obj(spec=obj(a={"type": "string", "maxLength": 3}, b=TEXT))
    place = f"/apis/{GROUP}/v1/namespaces/default/ratchets"
    one = f"{place}/old"
    definition = f"{DEFINITIONS}/ratchets.{GROUP}"
    yield create("define-ratchets", DEFINITIONS, crd("ratchets", "Ratchet", loose))
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Ratchet",
        "metadata": {"name": "old"},
        "spec": {"a": "long text", "b": "x"},
    }
    yield create("ratchet-made", place, body)
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": tight}}]
    yield change("ratchet-tighten", "PATCH", definition, {"spec": {"versions": versions}}, merge)
    yield change("ratchet-other-field", "PATCH", one, {"spec": {"b": "y"}}, merge)
    yield change("ratchet-same-field", "PATCH", one, {"spec": {"a": "also long"}}, merge)
    yield change("rename-kind", "PATCH", definition, {"spec": {"names": {"kind": "Other"}}}, merge)
    yield change("rename-plural", "PATCH", definition, {"spec": {"names": {"plural": "others"}}}, merge)
    yield change("change-scope", "PATCH", definition, {"spec": {"scope": "Cluster"}}, merge)
    renamed = copy.deepcopy(versions)
    renamed[0]["name"] = "v2"
    yield change("drop-stored-version", "PATCH", definition, {"spec": {"versions": renamed}}, merge)


def create(name: str, path: str, body: Tree, query: str = "") -> Tree:
    return {"id": name, "method": "POST", "path": path, "query": query, "body": body}


def change(name: str, method: str, path: str, body: Any, content_type: str = "") -> Tree:
    made = {"id": name, "method": method, "path": path, "query": "", "body": body}
    return {**made, "contentType": content_type} if content_type else made


# -- recording


class Server:
    """A server that takes a token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._url = urlsplit(config["clusters"][0]["cluster"]["server"])
        self._token = config["users"][0]["user"]["token"]

    def ask(self, request: Tree) -> tuple[int, list[str], Any]:
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(self._url.hostname or "", self._url.port, context=context, timeout=60)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers["Content-Type"] = request.get("contentType", "application/json")
        target = request["path"] + (f"?{request['query']}" if request["query"] else "")
        body = None if request["body"] is None else json.dumps(request["body"])
        connection.request(request["method"], target, body, headers)
        response = connection.getresponse()
        text = response.read()
        warnings = [value for name, value in response.getheaders() if name.lower() == "warning"]
        try:
            return response.status, warnings, json.loads(text)
        except ValueError:
            return response.status, warnings, text.decode()


def _settled(server: Server, request: Tree) -> None:
    """Wait until a definition that was written is served."""
    if request["path"].startswith(DEFINITIONS) and not request["query"] and request["method"] != "GET":
        time.sleep(8)  # a server waits some seconds before others may rely on a definition


def steady(body: Any) -> Any:
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        body["metadata"] = {key: value for key, value in body["metadata"].items() if key not in _VOLATILE}
    if isinstance(body, dict) and isinstance(body.get("details"), dict):
        body["details"].pop("uid", None)
    return body


def main() -> None:
    server = Server(Path(sys.argv[1]))
    for request in requests():
        code, warnings, body = server.ask(request)
        _settled(server, request)
        recorded = {**request, "response": {"code": code, "warnings": warnings, "body": steady(body)}}
        print(json.dumps(recorded))


if __name__ == "__main__":
    main()
