"""Random objects of all kinds on two API servers: create, update, every patch type, apply, status, dry run, delete.

A `Life` is one object from its creation to its deletion. It is generated from a seed while it runs, since later steps
change what the real server stored; it can be run again from its recorded steps, which is how it is shrunk.
"""

import copy
from collections.abc import Iterator
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple

import yaml

from differential import accepted
from differential.connection import Connection, Response
from differential.mutation import REMOVED, Mutation, random_mutation
from differential.responses import differences, shape
from differential.schema import Schema, Tree

_DRY_RUN_ONLY = {
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBinding",
    "CustomResourceDefinition",
    "APIService",
    "ServiceCIDR",
}
"""Kinds that change how a server treats other requests, some milliseconds later."""
_NAMES = {"APIService": "v1.x.example.com", "CustomResourceDefinition": "widgets.example.com"}
_PATCHES = {
    "json-patch": "application/json-patch+json",
    "merge-patch": "application/merge-patch+json",
    "strategic-patch": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_VERBS = (
    "get",
    "update",
    "update",
    "json-patch",
    "merge-patch",
    "strategic-patch",
    "apply",
    "apply",
    "status",
    "delete",
)


class Target(NamedTuple):
    """A kind with the path of its collection and a valid example."""

    collection: str
    example: Tree
    schema: Tree
    has_status: bool

    @property
    def kind(self) -> str:
        return str(self.example["kind"])


class Step(NamedTuple):
    """One request: a verb, the changes it makes, and its query."""

    verb: str
    mutations: tuple[Mutation, ...] = ()
    query: str = ""


class Life(NamedTuple):
    """An object's requests, in order."""

    target: Target
    name: str
    steps: tuple[Step, ...]


class Difference(NamedTuple):
    """Where two servers disagreed: what was sent, and how the answers differ."""

    kind: str
    verb: str
    text: str
    request: str
    life: Life

    @property
    def key(self) -> tuple[str, str]:
        """Where a difference was found and its shape; rules of pods are the same in every template."""
        found = shape(self.text)
        return ("validation" if " cause " in found else f"{self.kind} {self.verb}"), found


class Outcome(NamedTuple):
    """What a life showed: the number of requests, and the first difference, where it ended."""

    requests: int
    difference: Difference | None
    life: Life


def targets(schema: Schema, document: Tree) -> list[Target]:
    """Return the kinds that the real server serves and that `examples.yaml` has an object of."""
    paths = document["paths"]
    collections: dict[tuple[str, str], str] = {}
    for path, methods in paths.items():
        post = methods.get("post") or {}
        kind = post.get("x-kubernetes-group-version-kind")
        if post.get("x-kubernetes-action") == "post" and kind and "{name}" not in path:
            version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
            collections[version, kind["kind"]] = path
    found = []
    for example in yaml.safe_load_all((files(__package__) / "examples.yaml").read_text()):
        key = (example["apiVersion"], example["kind"])
        part = schema.kind(*key)
        if part is not None and key in collections:
            path = collections[key]
            has_status = f"{path}/{{name}}/status" in paths
            found.append(Target(path.replace("{namespace}", "default"), example, part, has_status))
    return found


class Comparison:
    """Two servers and the schema that random requests follow."""

    def __init__(self, real: Connection, ours: Connection) -> None:
        self._real, self._ours = real, ours
        document = real.request("GET", "/openapi/v2").body
        self.schema = Schema(document)
        self.targets = targets(self.schema, document)

    def run_seed(self, seed: int) -> Outcome:
        """Generate and run the life that belongs to a seed."""
        rng = Random(seed)
        target = rng.choice(self.targets)
        name = _NAMES.get(target.kind, f"fuzz-{seed}")
        if target.kind == "IPAddress":
            name = f"10.{seed >> 16 & 255}.{seed >> 8 & 255}.{seed & 255}"
        run = _Run(self._real, self._ours, target, name)
        steps: list[Step] = []
        for step in self._generate(rng, target, run):
            steps.append(step)
            if found := run.step(step):
                life = Life(target, name, tuple(steps))
                return Outcome(run.requests, found._replace(life=life), life)
        return Outcome(run.requests, None, Life(target, name, tuple(steps)))

    def _generate(self, rng: Random, target: Target, run: "_Run") -> Iterator[Step]:
        example = copy.deepcopy(target.example)
        only_dry = target.kind in _DRY_RUN_ONLY
        query = "dryRun=All" if only_dry or rng.random() < 0.1 else ""
        query += rng.choice(("", "", "&fieldValidation=Strict", "&fieldValidation=Ignore"))
        yield Step("create", self._mutations(rng, example, target, rng.choice((0, 1, 1, 2, 3, 4))), query)
        if only_dry or not run.has_object():
            return
        for _ in range(rng.choice((2, 4, 6, 8))):
            verb = rng.choice(_VERBS)
            base = example if verb == "apply" else run.stored
            changes = self._mutations(rng, copy.deepcopy(base), target, rng.choice((0, 1, 1, 2)))
            if verb == "status":
                status = self.schema.properties(target.schema).get("status")
                if not target.has_status or status is None:
                    continue
                changes = (Mutation(("status",), self.schema.random_value(rng, status, "status", 2)),)
            options = ["dryRun=All"] if rng.random() < 0.15 else []
            if verb == "apply":
                options += [f"fieldManager={rng.choice(('one', 'two'))}"] + (
                    ["force=true"] if rng.random() < 0.4 else []
                )
            elif rng.random() < 0.2:
                options.append(f"fieldManager={rng.choice(('one', 'two'))}")
            yield Step(verb, changes, "&".join(options))
            if not run.has_object():
                return
        yield Step("delete")

    def _mutations(self, rng: Random, tree: Tree, target: Target, number: int) -> tuple[Mutation, ...]:
        found = []
        for _ in range(number):
            mutation = random_mutation(rng, self.schema, tree, target.schema)
            if mutation is not None:
                found.append(mutation)
                mutation.apply(tree)
        return tuple(found)

    def run(self, life: Life) -> Difference | None:
        """Run a recorded life; return the first difference."""
        run = _Run(self._real, self._ours, life.target, life.name)
        for step in life.steps:
            if found := run.step(step):
                run.clean_up()
                return found._replace(life=life)
        run.clean_up()
        return None

    def shrink(self, found: Difference) -> Difference:
        """Remove steps and changes as long as the difference keeps its shape."""
        smallest, is_smaller = found, True
        while is_smaller:
            is_smaller = False
            for life in _smaller(smallest.life):
                again = self.run(life)
                if again is not None and again.key == found.key:
                    smallest, is_smaller = again, True
                    break
        return smallest


def _smaller(life: Life) -> Iterator[Life]:
    for index, step in enumerate(life.steps):
        before, after = life.steps[:index], life.steps[index + 1 :]
        if index and after:
            yield life._replace(steps=before + after)
        for place in range(len(step.mutations)):
            fewer = step._replace(mutations=step.mutations[:place] + step.mutations[place + 1 :])
            yield life._replace(steps=(*before, fewer, *after))


class _Run:
    """A life under way: what each server stores now."""

    def __init__(self, real: Connection, ours: Connection, target: Target, name: str) -> None:
        self._servers = (real, ours)
        self._target, self._name = target, name
        self._stored: list[Tree] = [{}, {}]
        self.requests = 0
        self._is_stored = False

    def has_object(self) -> bool:
        return self._is_stored

    @property
    def stored(self) -> Tree:
        """What the real server stores."""
        return self._stored[0]

    def step(self, step: Step) -> Difference | None:
        """Send a request to both servers; return how their answers differ."""
        sent = [self._request(step, stored) for stored in self._stored]
        real, ours = (server.request(*each) for server, each in zip(self._servers, sent, strict=True))
        self.requests += 1
        self._keep(step, real, ours)
        method, path, body, _ = sent[0]
        life = Life(self._target, self._name, ())
        found = [
            Difference(self._target.kind, step.verb, text, f"{method} {path} {body}", life)
            for text in differences(real, ours)
        ]
        if not found:
            return None
        self.clean_up()
        return _most_telling(found)

    def clean_up(self) -> None:
        """Delete the object on both servers, finalizers or not."""
        path = f"{self._target.collection}/{self._name}"
        for server in self._servers:
            answer = server.request("DELETE", f"{path}?gracePeriodSeconds=0")
            if answer.code == 200 and isinstance(answer.body, dict) and answer.body.get("kind") != "Status":
                patch = {"metadata": {"finalizers": None}}
                server.request("PATCH", path, patch, _PATCHES["merge-patch"])
                server.request("DELETE", f"{path}?gracePeriodSeconds=0")
        self._is_stored = False

    def _keep(self, step: Step, real: Response, ours: Response) -> None:
        is_object = real.code < 300 and isinstance(real.body, dict) and isinstance(ours.body, dict)
        if not is_object or "dryRun" in step.query or step.verb == "delete":
            if step.verb == "delete" and real.code < 300 and "dryRun" not in step.query:
                self.clean_up()
            return
        if real.body.get("kind") != "Status":
            self._stored, self._is_stored = [real.body, ours.body], True

    def _request(self, step: Step, stored: Tree) -> tuple[str, str, Any, str]:
        path = f"{self._target.collection}/{self._name}"
        query = f"?{step.query.lstrip('&')}" if step.query else ""
        json_type = "application/json"
        match step.verb:
            case "create":
                return "POST", self._target.collection + query, self._changed(self._example(), step), json_type
            case "get":
                return "GET", path + query, None, json_type
            case "delete":
                return "DELETE", path + query, None, json_type
            case "update":
                return "PUT", path + query, self._changed(stored, step), json_type
            case "status":
                return "PUT", f"{path}/status{query}", self._changed(stored, step), json_type
            case "apply":
                return "PATCH", path + query, self._changed(self._example(), step), _PATCHES["apply"]
            case "json-patch":
                return "PATCH", path + query, _json_patch(step, stored), _PATCHES["json-patch"]
        return "PATCH", path + query, _merge_patch(step, stored), _PATCHES[step.verb]

    def _example(self) -> Tree:
        tree = copy.deepcopy(self._target.example)
        tree["metadata"] = {**tree.get("metadata", {}), "name": self._name}
        return tree

    def _changed(self, tree: Tree, step: Step) -> Tree:
        tree = copy.deepcopy(tree)
        for mutation in step.mutations:
            mutation.apply(tree)
        return tree


def _most_telling(found: list[Difference]) -> Difference:
    """Return the first difference that is not explained; more causes in ours may follow from an explained one."""
    for each in found:  # ours could not be decoded, so that it was not validated
        if each.text.startswith("added cause FieldValueInvalid patch ") and accepted.explanation(each.key):
            return each
    missing = [each for each in found if each.text.startswith("missing cause")]
    stopped = bool(missing) and all(accepted.explanation(each.key) for each in missing)
    for each in found:
        if accepted.explanation(each.key) is None and not (stopped and each.text.startswith("added cause")):
            return each
    return found[0]


def _json_patch(step: Step, stored: Tree) -> list[Tree]:
    operations: list[Tree] = []
    tree = copy.deepcopy(stored)
    for mutation in step.mutations:
        pointer = "".join(f"/{str(each).replace('~', '~0').replace('/', '~1')}" for each in mutation.path)
        if mutation.value is REMOVED:
            operations.append({"op": "remove", "path": pointer})
        else:
            operations.append({"op": "add", "path": pointer, "value": mutation.value})
        mutation.apply(tree)
    return operations


def _merge_patch(step: Step, stored: Tree) -> Tree:
    """Return a patch that makes the changes; a list is sent whole."""
    changed = copy.deepcopy(stored)
    patch: Tree = {}
    for mutation in step.mutations:
        mutation.apply(changed)
        here, is_removed = patch, False
        value: Any = changed
        for place, each in enumerate(mutation.path):
            is_last = place == len(mutation.path) - 1
            if not isinstance(value, dict) or not isinstance(each, str):
                break
            is_removed = is_last and mutation.value is REMOVED
            value = value.get(each)
            if is_last or not isinstance(value, dict):
                here[each] = None if is_removed else copy.deepcopy(value)
                break
            inner = here.get(each)
            here[each] = inner = inner if isinstance(inner, dict) else {}
            here = inner
    return patch
