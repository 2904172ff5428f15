"""What a server serves is asked once for each group and version, and never for kinds that the client does not know."""

from client_fakes import FakeTransport, json_response
from mooring.api.apps_v1 import ReplicaSet, StatefulSet
from mooring.api.core_v1 import Namespace, Pod
from mooring.api.meta_v1 import Resource
from mooring.client import Client
from mooring.client.transport import Request, Response


class _Unknown(Resource):
    """No kind of any scheme."""


async def test_each_group_and_version_is_asked_once() -> None:
    served = {"/api/v1": ["pods", "nodes"], "/apis/apps/v1": ["replicasets", "statefulsets"]}

    def answer(request: Request) -> Response:
        return json_response({"resources": [{"name": name} for name in served[request.path]]})

    transport = FakeTransport(answer)
    client = Client(transport, user_agent="test")
    assert await client.served([Pod, Namespace, ReplicaSet, StatefulSet, _Unknown]) == {Pod, ReplicaSet, StatefulSet}
    assert sorted(request.path for request in transport.requests) == ["/api/v1", "/apis/apps/v1"]
