"""A device driver beside a real kubelet, as small as one can be: what a kubelet asks of every driver (DRA).

with device_driver("gpu.example.com", node) as driver:
    driver.publish(slice)             # as the node itself, which may write the ResourceSlices of its own
    driver.prepared                   # the devices of each claim that the kubelet has asked for

The kubelet finds a socket in its folder `plugins_registry`, asks who is there (`pluginregistration.Registration`), and
from then on asks the driver to prepare the claims of a pod before its containers start (`v1.DRAPlugin`). The driver
reads what was allocated, and answers with names of devices (CDI), whose files tell the container runtime what to do:
here each device is a file in `/dev` of the container, which leads to `/dev/null`.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from kubectl_caller import Kubectl
from mooring.store.etcd.messages import build_messages
from real_node import RealNode, eventually_true

_REGISTRATION = build_messages(
    "pluginregistration",
    {
        "InfoRequest": "",
        "PluginInfo": "type=1:string name=2:string endpoint=3:string supported_versions=4:*string",
        "RegistrationStatus": "plugin_registered=1:bool error=2:string",
        "RegistrationStatusResponse": "",
    },
)
_PACKAGE = "k8s.io.kubelet.pkg.apis.dra.v1"
_CLAIMS = build_messages(
    _PACKAGE,
    {
        "Claim": "namespace=1:string uid=2:string name=3:string",
        "Device": "request_names=1:*string pool_name=2:string device_name=3:string cdi_device_ids=4:*string",
        "Prepared": "devices=1:*Device error=2:string",
        "PreparedEntry": "key=1:string value=2:Prepared",  # what a map is when it is sent
        "Unprepared": "error=1:string",
        "UnpreparedEntry": "key=1:string value=2:Unprepared",
        "NodePrepareResourcesRequest": "claims=1:*Claim",
        "NodePrepareResourcesResponse": "claims=1:*PreparedEntry",
        "NodeUnprepareResourcesRequest": "claims=1:*Claim",
        "NodeUnprepareResourcesResponse": "claims=1:*UnpreparedEntry",
    },
)


@dataclass
class DeviceDriver:
    """What a driver knows: its name, its node, and what it has prepared there."""

    name: str
    node: RealNode
    registered: bool = False
    slices: set[str] = field(default_factory=set)
    prepared: dict[str, list[str]] = field(default_factory=dict)
    """The devices of a claim that is prepared, by the claim's name."""

    @property
    def as_node(self) -> Kubectl:
        """Reads and writes with the node's own certificate."""
        return Kubectl(self.node.state / "kubeconfig")

    @property
    def endpoint(self) -> Path:
        return self.node.state / "plugins" / self.name / "dra.sock"

    def publish(self, published: dict[str, Any]) -> None:
        """Write a ResourceSlice. A node may create one, and change what is there; it has no right to do either."""
        name = published["metadata"]["name"]
        self.as_node("replace" if name in self.slices else "create", "-f", "-", stdin=json.dumps(published))
        self.slices.add(name)

    def withdraw(self) -> None:
        """Take the devices out of the cluster. (Where a driver just ends, the kubelet does so half a minute later.)"""
        for name in self.slices:
            self.as_node("delete", "resourceslice", name)

    def get_info(self, _: Any) -> Any:
        info = _REGISTRATION("PluginInfo")
        versions = ["v1.DRAPlugin"]
        return info(type="DRAPlugin", name=self.name, endpoint=str(self.endpoint), supported_versions=versions)

    def notify(self, status: Any) -> Any:
        self.registered = status.plugin_registered
        return _REGISTRATION("RegistrationStatusResponse")()

    def prepare(self, request: Any) -> Any:
        entry, answer = _CLAIMS("PreparedEntry"), _CLAIMS("NodePrepareResourcesResponse")
        return answer(claims=[entry(key=claim.uid, value=self._prepared(claim)) for claim in request.claims])

    def _prepared(self, claim: Any) -> Any:
        read = Kubectl(self.as_node.kubeconfig, claim.namespace).get("resourceclaim", claim.name)
        if read["metadata"]["uid"] != claim.uid:
            return _CLAIMS("Prepared")(error="another claim has the name by now")
        results = [each for each in read["status"]["allocation"]["devices"]["results"] if each["driver"] == self.name]
        self._describe(claim.uid, [result["device"] for result in results])
        self.prepared[claim.name] = [result["device"] for result in results]
        device = _CLAIMS("Device")
        return _CLAIMS("Prepared")(
            devices=[
                device(
                    request_names=[result["request"]],
                    pool_name=result["pool"],
                    device_name=result["device"],
                    cdi_device_ids=[f"{self.name}/claim={claim.uid}-{result['device']}"],
                )
                for result in results
            ]
        )

    def _describe(self, uid: str, devices: list[str]) -> None:
        described = [
            {
                "name": f"{uid}-{device}",
                "containerEdits": {"deviceNodes": [{"path": f"/dev/{device}", "hostPath": "/dev/null"}]},
            }
            for device in devices
        ]
        tree = {"cdiVersion": "0.6.0", "kind": f"{self.name}/claim", "devices": described}
        self.node.devices.mkdir(exist_ok=True)
        (self.node.devices / f"{self.name}-{uid}.json").write_text(json.dumps(tree))

    def unprepare(self, request: Any) -> Any:
        entry, answer = _CLAIMS("UnpreparedEntry"), _CLAIMS("NodeUnprepareResourcesResponse")
        for claim in request.claims:
            (self.node.devices / f"{self.name}-{claim.uid}.json").unlink(missing_ok=True)
            self.prepared.pop(claim.name, None)
        return answer(claims=[entry(key=claim.uid, value=_CLAIMS("Unprepared")()) for claim in request.claims])


@contextmanager
def device_driver(name: str, node: RealNode) -> Iterator[DeviceDriver]:
    """Yield a driver that the kubelet knows, until it is left."""
    driver = DeviceDriver(name, node)
    driver.endpoint.parent.mkdir(parents=True, exist_ok=True)
    registry = node.state / "plugins_registry" / f"{name}-reg.sock"
    claims = _service(
        f"{_PACKAGE}.DRAPlugin",
        NodePrepareResources=(_CLAIMS("NodePrepareResourcesRequest"), driver.prepare),
        NodeUnprepareResources=(_CLAIMS("NodeUnprepareResourcesRequest"), driver.unprepare),
    )
    registration = _service(
        "pluginregistration.Registration",
        GetInfo=(_REGISTRATION("InfoRequest"), driver.get_info),
        NotifyRegistrationStatus=(_REGISTRATION("RegistrationStatus"), driver.notify),
    )
    with _served(driver.endpoint, claims), _served(registry, registration):
        eventually_true(lambda: driver.registered)
        yield driver
        driver.withdraw()


@contextmanager
def _served(socket: Path, service: grpc.GenericRpcHandler) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((service,))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(grace=None).wait()
        socket.unlink(missing_ok=True)


def _service(name: str, **methods: tuple[Any, Callable[[Any], Any]]) -> grpc.GenericRpcHandler:
    """Return a service whose methods take a message and give another."""

    def handler(request: Any, answer: Callable[[Any], Any]) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            lambda message, _: answer(message),
            request_deserializer=request.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    return grpc.method_handlers_generic_handler(name, {key: handler(*value) for key, value in methods.items()})
