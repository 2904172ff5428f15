"""Services and their endpoints."""

from typing import Any

import pytest

from admission_kinds import ABSENT, Create, Update, example, stored
from admission_pods import Tree, request
from mooring.admission.options import for_component
from mooring.admission.pipeline import admit_create
from mooring.base.component import resolve

NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"

NOT_A_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"


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
    *(
        Create(f"traffic distribution {value}", "Service", spec(trafficDistribution=value), problems)
        for value, problems in (
            ("PreferClose", []),
            ("PreferSameNode", []),
            (
                "Bogus",
                [
                    (
                        'spec.trafficDistribution: Unsupported value: "Bogus": supported values: '
                        '"PreferClose", "PreferSameZone", "PreferSameNode"'
                    )
                ],
            ),
        )
    ),
    *(
        Create(
            f"source range {text!r}", "Service", spec(type="LoadBalancer", loadBalancerSourceRanges=[text]), problems
        )
        for text, problems in (
            (" 10.0.0.0/8 ", []),
            ("2001:DB8::/32", []),
            ("x", [f'spec.LoadBalancerSourceRanges[0]: Invalid value: "x": {NOT_A_CIDR}']),
            (
                "10.0.0.1/8",
                [
                    (
                        'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": '
                        "must not have bits set beyond the prefix length"
                    )
                ],
            ),
            (
                "010.0.0.0/8",
                [
                    (
                        'spec.LoadBalancerSourceRanges[0]: Invalid value: "010.0.0.0/8": '
                        "must not have leading 0s in IP or prefix length"
                    )
                ],
            ),
        )
    ),
    Create(
        "source ranges without a balancer",
        "Service",
        spec(loadBalancerSourceRanges=["x"]),
        [
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            f'spec.LoadBalancerSourceRanges[0]: Invalid value: "x": {NOT_A_CIDR}',
        ],
    ),
    *(
        Create(
            f"source ranges {text!r} in the annotation",
            "Service",
            {"metadata": {"annotations": {RANGES: text}}, "spec": {"type": "LoadBalancer"}},
            [f'metadata.annotations[{RANGES}]: Invalid value: "{wrong}": {NOT_A_CIDR}' for wrong in problems],
        )
        for text, problems in (("  ", []), ("x, 10.0.0.0/8", ["x"]), ("10.0.0.0/8,", [""]))
    ),
    *(
        Create(
            f"external address {ip}",
            "Service",
            spec(externalIPs=[ip]),
            [f'spec.externalIPs[0]: Invalid value: "{ip}": {why}'],
        )
        for ip, why in (
            ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            ("010.0.0.1", "must not have leading 0s"),
            ("x", NOT_AN_IP),
        )
    ),
    Create(
        "a class of balancers that is no name",
        "Service",
        spec(type="LoadBalancer", loadBalancerClass="x y"),
        [
            (
                'spec.loadBalancerClass: Invalid value: "x y": name part must consist of alphanumeric characters, '
                "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
                "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            )
        ],
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
    Create(
        "a name",
        "Endpoints",
        address("host"),
        [
            f'subsets[0].addresses[0].ip: Invalid value: "host": {NOT_AN_IP}',
            'subsets[0].addresses[0].ip: Invalid value: "host": must be a valid IP address',
        ],
    ),
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
        ['endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address'],
    ),
    Create(
        "no addresses",
        "EndpointSlice",
        endpoint(addresses=[]),
        ["endpoints[0].addresses: Required value"],
    ),
    Create(
        "the same port name twice",
        "EndpointSlice",
        {"ports": [{"port": 80}, {"port": 81}]},
        ['ports[1].name: Duplicate value: ""'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_a_create_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


UPDATES = [
    Update(
        "another address",
        "Service",
        spec(clusterIP="10.0.0.1"),
        spec(clusterIP="10.0.0.2", clusterIPs=["10.0.0.2"]),
        ['spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'],
    ),
    Update(
        "a source range that was stored before the rule",
        "Service",
        spec(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8"]),
        spec(type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8", "10.0.0.1/8"]),
        [
            (
                'spec.LoadBalancerSourceRanges[1]: Invalid value: "10.0.0.1/8": '
                "must not have bits set beyond the prefix length"
            )
        ],
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
        {"spec": {"type": "LoadBalancer"}},
        {"status": {"loadBalancer": {"ingress": [{"ip": "x"}]}}},
        [f'status.loadBalancer.ingress[0].ip: Invalid value: "x": {NOT_AN_IP}'],
        subresource="status",
    ),
    Update(
        "an address of a load balancer that there is not",
        "Service",
        {},
        {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}},
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
        subresource="status",
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_an_update_is_validated(case: Update) -> None:
    assert case.validate() == case.problems


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


@pytest.mark.req("4330.7")
@pytest.mark.parametrize(
    ("emulation", "compatible", "gates", "is_allowed"),
    [
        ("1.37", "1.36", "", True),
        ("1.37", "1.34", "", True),
        ("1.37", "1.33", "", False),
        ("1.36", "1.35", "", True),
        ("1.36", "1.35", "RelaxedServiceNameValidation=false", False),
        ("1.35", "1.34", "", False),
    ],
)
def test_names_begin_with_a_digit_where_all_servers_read_them(
    emulation: str, compatible: str, gates: str, is_allowed: bool
) -> None:
    options = for_component(resolve(emulation=emulation, min_compatibility=compatible, gates=gates))
    problems = Create("digit", "Service", {"metadata": {"name": "1a"}}).validate(options)
    assert (not problems) is is_allowed
    assert all(each.startswith('metadata.name: Invalid value: "1a": a DNS-1035 label must') for each in problems)


@pytest.mark.req("4330.7")
@pytest.mark.parametrize(
    ("emulation", "compatible", "gates", "value", "supported"),
    [
        ("1.37", "1.33", "", "PreferSameNode", None),
        ("1.37", "1.32", "", "PreferSameNode", '"PreferClose"'),
        ("1.34", "1.33", "", "PreferSameZone", None),
        ("1.34", "1.33", "PreferSameTrafficDistribution=false", "PreferSameZone", '"PreferClose"'),
        ("1.33", "1.32", "", "PreferSameNode", '"PreferClose"'),
        ("1.31", "1.30", "", "PreferSameNode", '"PreferClose"'),
        ("1.31", "1.30", "", "PreferClose", None),
    ],
)
def test_traffic_is_distributed_as_the_release_can(
    emulation: str, compatible: str, gates: str, value: str, supported: str | None
) -> None:
    options = for_component(resolve(emulation=emulation, min_compatibility=compatible, gates=gates))
    where = "spec.trafficDistribution: Unsupported value"
    expected = [f'{where}: "{value}": supported values: {supported}'] if supported else []
    assert Create("", "Service", spec(trafficDistribution=value)).validate(options) == expected


@pytest.mark.req("4330.7")
@pytest.mark.parametrize(("emulation", "is_warned"), [("1.37", True), ("1.33", False)])
def test_a_replacement_is_recommended_where_the_release_has_it(emulation: str, *, is_warned: bool) -> None:
    """PreferSameZone, which replaces PreferClose, came with 1.34."""
    service = example("Service", {"spec": {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"}})
    found = admit_create(service, request(for_component(resolve(emulation=emulation)))).warnings
    assert any("PreferSameZone" in each for each in found) is is_warned
