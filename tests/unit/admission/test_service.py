"""Services and the addresses behind them."""

from typing import Any

import pytest

from admission_kinds import ABSENT, Create, Update, stored
from admission_pods import Tree
from mooring.admission.options import AdmissionOptions

NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def spec(**fields: Any) -> Tree:
    return {"spec": fields}


def address(ip: str) -> Tree:
    return {"subsets": [{"addresses": [{"ip": ip}]}]}


def endpoint(**fields: Any) -> Tree:
    return {"endpoints": [{"addresses": ["10.0.0.1"], **fields}]}


CREATES = [
    Create("no ports", "Service", spec(ports=ABSENT), ["spec.ports: Required value"]),
    Create("no ports and no address", "Service", spec(ports=ABSENT, clusterIP="None")),
    Create(
        "two ports without names",
        "Service",
        spec(ports=[{"port": 80}, {"port": 81}]),
        [
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Required value",
        ],
    ),
    Create(
        "the same port twice",
        "Service",
        spec(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
        [
            (
                "spec.ports[1]: Duplicate value: "
                '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
                '"NodePort":0}'
            )
        ],
    ),
    Create(
        "a port too high",
        "Service",
        spec(ports=[{"port": 70000, "targetPort": 80}]),
        ["spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    Create(
        "an unknown protocol",
        "Service",
        spec(ports=[{"port": 80, "protocol": "ICMP"}]),
        ['spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'],
    ),
    Create(
        "an unknown type",
        "Service",
        spec(type="Magic"),
        [
            (
                'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
                '"NodePort"'
            )
        ],
    ),
    Create("another name", "Service", spec(type="ExternalName", ports=ABSENT, externalName="db.example.com")),
    Create(
        "another name that is missing",
        "Service",
        spec(type="ExternalName", ports=ABSENT),
        ["spec.externalName: Required value"],
    ),
    Create(
        "a node port inside the cluster",
        "Service",
        spec(ports=[{"port": 80, "nodePort": 30000}]),
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    Create(
        "a load balancer without an address",
        "Service",
        spec(type="LoadBalancer", clusterIP="None"),
        ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services"],
    ),
    Create(
        "an address that is none",
        "Service",
        spec(clusterIP="10.0.0.x"),
        [f'spec.clusterIPs[0]: Invalid value: "10.0.0.x": {NOT_AN_IP}'],
    ),
    Create(
        "a short memory",
        "Service",
        spec(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 0}}),
        [
            (
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and "
                "less than 86400"
            )
        ],
    ),
    Create(
        "traffic from outside to the inside",
        "Service",
        spec(externalTrafficPolicy="Local"),
        ['spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'],
    ),
    Create(
        "a class for no load balancer",
        "Service",
        spec(loadBalancerClass="example.com/lb"),
        ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    Create("a name that begins with a digit", "Service", {"metadata": {"name": "1a"}}),
    Create(
        "nobody",
        "Endpoints",
        {"subsets": [{}]},
        ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
    ),
    Create(
        "oneself",
        "Endpoints",
        address("127.0.0.1"),
        [
            (
                'subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range '
                "(127.0.0.0/8, ::1/128)"
            )
        ],
    ),
    Create(
        "anybody",
        "Endpoints",
        address("0.0.0.0"),
        ['subsets[0].addresses[0].ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)'],
    ),
    Create("a name", "Endpoints", address("host"), [f'subsets[0].addresses[0].ip: Invalid value: "host": {NOT_AN_IP}']),
    Create("no type", "EndpointSlice", {"addressType": ""}, ["addressType: Required value"]),
    Create(
        "another type",
        "EndpointSlice",
        {"addressType": "IPX"},
        ['addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"'],
    ),
    Create(
        "the other family",
        "EndpointSlice",
        endpoint(addresses=["2001:db8::1"]),
        ['endpoints[0].addresses[0]: Invalid value: "2001:db8::1": must be an IPv4 address'],
    ),
    Create(
        "no addresses",
        "EndpointSlice",
        endpoint(addresses=[]),
        ["endpoints[0].addresses: Required value: must contain at least 1 address"],
    ),
    Create(
        "the same port name twice",
        "EndpointSlice",
        {"ports": [{"port": 80}, {"port": 81}]},
        ['ports[1].name: Duplicate value: ""'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_a_create_is_judged(case: Create) -> None:
    assert case.judged() == case.problems


UPDATES = [
    Update(
        "another address",
        "Service",
        spec(clusterIP="10.0.0.1"),
        spec(clusterIP="10.0.0.2", clusterIPs=["10.0.0.2"]),
        ['spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'],
    ),
    Update("an address left out", "Service", spec(clusterIP="10.0.0.1"), spec(clusterIP=ABSENT, clusterIPs=ABSENT)),
    Update(
        "another type of address",
        "EndpointSlice",
        {},
        {"addressType": "IPv6", "endpoints": []},
        ['addressType: Invalid value: "IPv6": field is immutable'],
    ),
    Update(
        "no address of a load balancer",
        "Service",
        {},
        {"status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}},
        [f'status.loadBalancer.ingress[0].ip: Invalid value: "x": {NOT_AN_IP}'],
        subresource="status",
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_an_update_is_judged(case: Update) -> None:
    assert case.judged() == case.problems


def test_what_a_service_gets() -> None:
    made = stored("Service").spec
    assert (made.type, made.session_affinity, made.internal_traffic_policy) == ("ClusterIP", "None", "Cluster")
    assert (made.ip_families, made.ip_family_policy) == (["IPv4"], "SingleStack")
    assert (made.ports[0].protocol, made.ports[0].target_port) == ("TCP", 80)
    assert made.cluster_ip == ""


def test_what_a_load_balancer_gets() -> None:
    made = stored("Service", spec(type="LoadBalancer", sessionAffinity="ClientIP")).spec
    assert (made.external_traffic_policy, made.allocate_load_balancer_node_ports) == ("Cluster", True)
    assert made.session_affinity_config.client_ip.timeout_seconds == 10800


def test_before_1_36_a_name_begins_with_a_letter() -> None:
    case = Create("digit", "Service", {"metadata": {"name": "1a"}})
    [problem] = case.judged(AdmissionOptions(relaxed_service_names=False))
    assert problem.startswith('metadata.name: Invalid value: "1a": a DNS-1035 label must')
