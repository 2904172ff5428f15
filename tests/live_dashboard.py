"""Dashboards of a live cluster: an API server in the same process, seen by its administrator or with few rights.

async with live_cluster(tmp_path, shop()) as cluster, cluster.dashboard(allow_changes=True) as caller:
    await caller.change(what="cordon", node="east-0")
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app_calls import running
from dashboard_calls import CHANGING_TOKEN, PORT, TOKEN, Caller
from mooring.advisor.simulate import Settings
from mooring.api.authentication_v1 import UserInfo
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node
from mooring.api.meta_v1 import Resource
from mooring.api.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from mooring.apiserver.in_process import handler
from mooring.apiserver.server import ApiServer
from mooring.client import Client
from mooring.client.in_process import InProcessTransport
from mooring.dashboard.access import Access
from mooring.dashboard.app import App
from mooring.dashboard.gate import Gate
from mooring.dashboard.watching import Watching

ADMIN = UserInfo(username="admin", groups=["system:masters"])
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class LiveCluster:
    """A server with objects, and how to look at it."""

    server: ApiServer
    client: Client

    @asynccontextmanager
    async def client_of(self, user: UserInfo) -> AsyncIterator[Client]:
        transport = InProcessTransport(handler(self.server.app, user))
        yield Client(transport, user_agent="test", scheme=self.server.scheme)

    @asynccontextmanager
    async def dashboard(
        self, user: UserInfo = ADMIN, *, allow_changes: bool = False, namespace: str = "default"
    ) -> AsyncIterator[Caller]:
        """Yield what a user sees."""
        access = Access(
            origin="the test",
            settings=Settings(),
            connect=lambda: self.client_of(user),
            namespace=namespace,
            allow_changes=allow_changes,
        )
        async with Watching(access) as watching:
            assert await watching.ready(), watching.problem
            gate = Gate(TOKEN, PORT, CHANGING_TOKEN if allow_changes else "")
            yield Caller(App(watching, gate), watching)

    async def user_with(self, *rules: PolicyRule, name: str = "jane", namespace: str = "") -> UserInfo:
        """Create a user with these rights alone, in the whole cluster or in one namespace."""
        role, binding = (Role, RoleBinding) if namespace else (ClusterRole, ClusterRoleBinding)
        made: Any = role(rules=list(rules))
        made.metadata.name, made.metadata.namespace = f"{name}-may", namespace
        await self.client.create(made)
        bound: Any = binding(
            role_ref=RoleRef(api_group=RBAC, kind=role.__name__, name=f"{name}-may"),
            subjects=[Subject(api_group=RBAC, kind="User", name=name)],
        )
        bound.metadata.name, bound.metadata.namespace = f"{name}-may", namespace
        await self.client.create(bound)
        return UserInfo(username=name, groups=["system:authenticated"])


def may(verbs: str, resources: str, group: str = "") -> PolicyRule:
    """Return a rule; words are parted by spaces."""
    return PolicyRule(verbs=verbs.split(), resources=resources.split(), api_groups=[group])


@asynccontextmanager
async def live_cluster(folder: Path, objects: Iterable[Resource]) -> AsyncIterator[LiveCluster]:
    async with running(folder) as server:
        client = Client(InProcessTransport(handler(server.app, ADMIN)), user_agent="test", scheme=server.scheme)
        for each in objects:
            given = copy_of(each)
            given.metadata.uid = ""
            made = await client.create(given)
            if isinstance(made, Node) and isinstance(each, Node):
                made.spec.taints = each.spec.taints  # without those that every new node gets
                await client.update(made)
        yield LiveCluster(server, client)


Connecting = Callable[[], AbstractAsyncContextManager[Client]]


def connecting(folder: Path, objects: Iterable[Resource]) -> Connecting:
    """For a dashboard in another loop: the server begins and ends with it."""

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        async with live_cluster(folder, objects) as cluster:
            yield cluster.client

    return connect
