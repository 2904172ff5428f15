"""Definitions that others publish are installed, and the objects that they publish beside them are valid.

MOORING_MANIFESTS names a folder with checked-out manifests: of cert-manager, Argo Workflows, Kueue and the like.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from custom_api import DEFINITIONS, CustomApi, custom_api

FOLDER = os.environ.get("MOORING_MANIFESTS", "")
pytestmark = [
    pytest.mark.req("X.1"),
    pytest.mark.skipif(not FOLDER, reason="MOORING_MANIFESTS does not name a folder with manifests of others"),
]


def documents() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every object in the folder; templates that are no YAML are left out."""
    for path in sorted(Path(FOLDER).rglob("*.y*ml")):
        try:
            found = list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
        except (yaml.YAMLError, UnicodeDecodeError):
            continue
        for each in found:
            if isinstance(each, dict) and "kind" in each and "apiVersion" in each:
                yield path.relative_to(FOLDER), each


async def create(api: CustomApi, obj: dict[str, Any]) -> str:
    """Return what is wrong with a custom object of a kind that is served, under a name of ours; empty if nothing is."""
    kind = api.scheme.kind(obj["apiVersion"], obj["kind"])
    if kind is None or not kind.custom:
        return ""
    where = f"namespaces/default/{kind.plural}" if kind.namespaced else kind.plural
    body = {**obj, "metadata": {"generateName": "published-"}}
    answer = await api.post(f"/apis/{obj['apiVersion']}/{where}?fieldValidation=Strict", body)
    return "" if answer.code == 201 else answer.message


async def test_published_definitions_are_installed_and_published_objects_are_valid() -> None:
    found = list(documents())
    definitions = [obj for _, obj in found if obj["kind"] == "CustomResourceDefinition"]
    assert definitions, f"no definition is in {FOLDER}"
    async with custom_api() as api:
        for each in definitions:
            answer = await api.post(DEFINITIONS, each)
            assert answer.code in {201, 409}, f"{each['metadata']['name']}: {answer.message}"
        served = {kind.custom.definition.metadata.name for kind in api.scheme.served if kind.custom}
        assert served == {each["metadata"]["name"] for each in definitions}
        wrong = [(str(path), why) for path, obj in found if (why := await create(api, obj))]
        assert wrong == []
