"""What clients find out about custom kinds: discovery and OpenAPI, as they come and go."""

import json
import subprocess
import sys

import pytest

from custom_api import CustomApi, cron_tabs, custom_api
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import VersionInfo
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.output.discovery import Discovery
from mooring.apiserver.output.openapi import OpenApi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NAME = "com.example.stable.v1.CronTab"


def found(response: Response | None) -> dict[str, object]:
    assert response is not None
    assert isinstance(response.body, bytes)
    body: dict[str, object] = json.loads(response.body)
    return body


@pytest.mark.req("X.5")
async def test_discovery_follows_definitions() -> None:
    async with custom_api() as api:
        discovery = Discovery(api.scheme)
        everything = Request(method="GET", path="/apis", headers={"accept": AGGREGATED})
        assert "stable.example.com" not in str(found(discovery.handle(everything)))
        await api.define(cron_tabs())
        listed = found(discovery.handle(Request(method="GET", path="/apis/stable.example.com/v1")))
        resources = listed["resources"]
        assert isinstance(resources, list)
        assert [each["name"] for each in resources] == ["crontabs", "crontabs/status", "crontabs/scale"]
        assert (resources[0]["singularName"], resources[0]["shortNames"]) == ("crontab", ["ct"])
        assert resources[0]["categories"] == ["all"]
        assert "stable.example.com" in str(found(discovery.handle(everything)))


@pytest.mark.req("X.5")
async def test_openapi_has_the_schema_with_what_all_objects_have() -> None:
    async with custom_api() as api:
        openapi = OpenApi(api.scheme, VersionInfo(git_version="v1.37.0"))
        await api.define(cron_tabs())
        for definitions in (_v3(openapi, api), openapi.build_v2()["definitions"]):
            schema = definitions[NAME]
            assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
            assert schema["properties"]["spec"]["properties"]["cronSpec"]["description"] == "When it runs."
            assert definitions[f"{NAME}List"]["required"] == ["items"]
        paths = openapi.build_v3(GroupVersion("stable.example.com", "v1"))["paths"]
        one = paths["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]
        assert set(one["patch"]["requestBody"]["content"]) == {
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        }


@pytest.mark.req("X.5")
async def test_what_all_objects_have_is_described_as_people_look_for_it() -> None:
    async with custom_api() as api:
        openapi = OpenApi(api.scheme, VersionInfo(git_version="v1.37.0"))
        await api.define(cron_tabs())
        schemas = _v3(openapi, api)
        metadata = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
        assert "APIVersion defines" in str(schemas[NAME]["properties"]["apiVersion"])
        assert "Standard object's metadata" in str(schemas[NAME]["properties"]["metadata"]["description"])
        assert "allOf" in schemas[NAME]["properties"]["metadata"]  # beside a bare reference kubectl sees no description
        assert "CreationTimestamp is a timestamp" in str(metadata["properties"]["creationTimestamp"])


def _v3(openapi: OpenApi, api: CustomApi) -> dict[str, dict[str, dict[str, dict[str, dict[str, dict[str, str]]]]]]:
    [version] = api.scheme.versions("stable.example.com")
    schemas: dict[str, dict[str, dict[str, dict[str, dict[str, dict[str, str]]]]]]
    schemas = openapi.build_v3(GroupVersion("stable.example.com", version))["components"]["schemas"]
    return schemas


@pytest.mark.req("X.14")
def test_a_server_without_definitions_loads_nothing_for_them() -> None:
    program = """
import asyncio, sys
sys.path.insert(0, "tests")
from api_caller import api_caller, config_map, CONFIG_MAPS
from mooring.apiserver.extension.definitions import Definitions

async def main():
    async with api_caller() as api:
        definitions = Definitions(api.store, api.scheme, api.resources, api.clock)
        task = asyncio.create_task(definitions.run())
        await definitions.wait_for_sync()
        await api.post(CONFIG_MAPS, config_map())
        task.cancel()

asyncio.run(main())
heavy = ("mooring.admission.custom", "mooring.admission.definitions.schemas", "mooring.api.custom_kinds", "re2")
print([name for name in sys.modules if name.startswith(heavy)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
