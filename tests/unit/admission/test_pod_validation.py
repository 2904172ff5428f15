"""What is wrong with a pod, part by part: a table of specs and the complete answers, in Kubernetes' words."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from admission_pods import Tree, create_problems, pod_of, request
from mooring.admission.options import for_component
from mooring.admission.pipeline import admit_create
from mooring.base.component import resolve

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
C = "spec.containers[0]"


def container(**fields: Any) -> Tree:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def init(**fields: Any) -> Tree:
    return {"initContainers": [{"name": "i", "image": "i", **fields}]}


def volume(**source: Any) -> Tree:
    return {"volumes": [{"name": "v", **source}]}


def resources(**fields: Any) -> Tree:
    return container(resources=fields)


@dataclass(frozen=True)
class Case:
    name: str
    spec: Tree
    answers: list[str]
    metadata: Tree = field(default_factory=dict)


CONTAINERS = [
    Case(
        "processes shared with the host and with the pod",
        {"shareProcessNamespace": True, "hostPID": True},
        [("spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled")],
    ),
    Case("no containers", {"containers": []}, ["spec.containers: Required value"]),
    Case("no name", {"containers": [{"image": "i"}]}, [f"{C}.name: Required value"]),
    Case("a bad name", {"containers": [{"name": "C_", "image": "i"}]}, [f'{C}.name: Invalid value: "C_": {LABEL}']),
    Case(
        "an image with a space",
        container(image="i "),
        [f'{C}.image: Invalid value: "i ": must not have leading or trailing whitespace'],
    ),
    Case(
        "two of one name",
        {"containers": [{"name": "c", "image": "i"}] * 2},
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    Case(
        "an unknown pull policy",
        container(imagePullPolicy="Maybe"),
        [f'{C}.imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"'],
    ),
    Case(
        "an unknown message policy",
        container(terminationMessagePolicy="X"),
        [f'{C}.terminationMessagePolicy: Unsupported value: "X": supported values: "File", "FallbackToLogsOnError"'],
    ),
    Case(
        "a name of an init container that is taken",
        {"initContainers": [{"name": "c", "image": "i"}]},
        ['spec.initContainers[0].name: Duplicate value: "c"'],
    ),
    Case(
        "a probe of an init container",
        init(livenessProbe={"exec": {"command": ["true"]}}),
        [
            (
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers "
                "without restartPolicy=Always"
            )
        ],
    ),
    Case("a probe of a sidecar", init(restartPolicy="Always", livenessProbe={"exec": {"command": ["true"]}}), []),
    Case(
        "restart rules without a policy",
        container(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
        [f"{C}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"],
    ),
    Case(
        "ephemeral containers",
        {"ephemeralContainers": [{"name": "e", "image": "i"}]},
        ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    ),
    Case(
        "an ephemeral container with resources and a port",
        {"ephemeralContainers": [{"name": "e", "image": "i", "ports": [{"containerPort": 1}]}]},
        [
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ],
    ),
]
PORTS_AND_ENV = [
    Case(
        "a port without a number, of an unknown protocol",
        container(ports=[{"protocol": "X"}]),
        [
            f"{C}.ports[0].containerPort: Required value",
            f'{C}.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
        ],
    ),
    Case(
        "numbers out of range",
        container(ports=[{"containerPort": 65536, "hostPort": -1}]),
        [
            f"{C}.ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            f"{C}.ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        ],
    ),
    Case(
        "names of ports",
        container(
            ports=[
                {"containerPort": 1, "name": "a"},
                {"containerPort": 2, "name": "a"},
                {"containerPort": 3, "name": "A"},
            ]
        ),
        [
            f'{C}.ports[1].name: Duplicate value: "a"',
            (
                f'{C}.ports[2].name: Invalid value: "A": must contain only alpha-numeric characters (a-z, '
                "0-9), and hyphens (-)"
            ),
            f'{C}.ports[2].name: Invalid value: "A": must contain at least one letter (a-z)',
        ],
    ),
    Case(
        "one host port twice",
        container(ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]),
        [f'{C}.ports[1].hostPort: Duplicate value: "TCP//9"'],
    ),
    Case(
        "a host port in the host's network",
        {**container(ports=[{"containerPort": 1, "hostPort": 2}]), "hostNetwork": True},
        [f"{C}.ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"],
    ),
    Case(
        "variables",
        container(env=[{"name": ""}, {"name": "a=b"}, {"name": "c", "valueFrom": {}}]),
        [
            f"{C}.env[0].name: Required value",
            (
                f'{C}.env[1].name: Invalid value: "a=b": a valid environment variable name must '
                "consist only of printable "
                "ASCII characters other than '='"
            ),
            (
                f'{C}.env[2].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
                "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            ),
        ],
    ),
    Case(
        "a value and a source",
        container(env=[{"name": "a", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        [f'{C}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    Case(
        "fields that cannot be chosen",
        container(
            env=[
                {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}},
                {"name": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
                {"name": "c", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}},
            ]
        ),
        [
            (
                f'{C}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": '
                "error converting fieldPath: field label not supported: spec.x"
            ),
            (
                f'{C}.env[1].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: '
                '"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
                '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
            ),
            (
                f'{C}.env[2].valueFrom.fieldRef: Invalid value: "a b": name part must consist of '
                "alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyName',  or 'my.name',  or "
                "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ],
    ),
    Case(
        "a divisor",
        container(env=[{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]),
        [
            (
                f'{C}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": '
                "only divisor's values 1m and 1 are supported with the cpu resource"
            )
        ],
    ),
    Case(
        "a source of variables that is none",
        container(envFrom=[{}, {"secretRef": {}}]),
        [
            f'{C}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
            f"{C}.envFrom[1].secretRef.name: Required value",
        ],
    ),
]
PROBES = [
    Case(
        "no handler", container(livenessProbe={}), [f"{C}.livenessProbe: Required value: must specify a handler type"]
    ),
    Case(
        "two handlers",
        container(readinessProbe={"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}),
        [f"{C}.readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
    ),
    Case(
        "numbers",
        container(livenessProbe={"tcpSocket": {"port": 0}, "periodSeconds": -1, "successThreshold": 2}),
        [
            f"{C}.livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            f"{C}.livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            f"{C}.livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    ),
    Case(
        "HTTP",
        container(
            startupProbe={"httpGet": {"port": 1, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]}}
        ),
        [
            f'{C}.startupProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
            (
                f'{C}.startupProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of '
                "alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            ),
        ],
    ),
    Case(
        "a sleep beyond the grace period",
        container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [
            (
                f"{C}.lifecycle.preStop.sleep: Invalid value: 31: "
                "must be non-negative and less than terminationGracePeriodSeconds (30)"
            )
        ],
    ),
    Case(
        "a stop signal without an operating system",
        container(lifecycle={"stopSignal": "SIGTERM"}),
        [f"{C}.lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"],
    ),
]
RESOURCES = [
    Case(
        "more than the limit",
        resources(requests={"cpu": "2"}, limits={"cpu": "1"}),
        [f'{C}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    Case(
        "less than nothing",
        resources(requests={"cpu": "-1"}),
        [f'{C}.resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    Case(
        "a part of a GPU, without a limit",
        resources(requests={"nvidia.com/gpu": "1500m"}),
        [
            f'{C}.resources.requests[nvidia.com/gpu]: Invalid value: "1500m": must be an integer',
            f"{C}.resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    ),
    Case(
        "not the limit",
        resources(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "2"}),
        [f'{C}.resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2'],
    ),
    Case(
        "an unknown resource",
        resources(limits={"gold": "1"}),
        [
            f'{C}.resources.limits[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
            f'{C}.resources.limits[gold]: Invalid value: "gold": must be a standard resource for containers',
            f'{C}.resources.requests[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
            f'{C}.resources.requests[gold]: Invalid value: "gold": must be a standard resource for containers',
        ],
    ),
    Case(
        "huge pages alone",
        resources(limits={"hugepages-2Mi": "3Mi"}),
        [
            (
                f'{C}.resources.limits[hugepages-2Mi]: Invalid value: "3Mi": '
                "3Mi is not positive integer multiple of hugepages-2Mi"
            ),
            (
                f'{C}.resources.requests[hugepages-2Mi]: Invalid value: "3Mi": '
                "3Mi is not positive integer multiple of hugepages-2Mi"
            ),
            f"{C}.resources: Forbidden: HugePages require cpu or memory",
        ],
    ),
    Case(
        "a claim that the pod does not have",
        resources(claims=[{"name": "gpu"}]),
        [
            (
                f'{C}.resources.claims[0]: Not found: "gpu": must be one of the names in '
                "pod.spec.resourceClaims which is empty"
            )
        ],
    ),
    Case(
        "claims of a pod",
        {"resourceClaims": [{"name": "a"}, {"name": "a", "resourceClaimName": "x"}]},
        [
            (
                "spec.resourceClaims[0]: Invalid value: "
                '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}'
                ": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            ),
            'spec.resourceClaims[1].name: Duplicate value: "a"',
        ],
    ),
    Case(
        "less for the pod than for its containers",
        {**resources(requests={"cpu": "2"}), "resources": {"requests": {"cpu": "1"}}},
        [
            (
                'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to '
                "aggregate container requests of 2"
            )
        ],
    ),
    Case(
        "a resource that pods as a whole do not have",
        {"resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}},
        [
            (
                'spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported '
                'values: "cpu", "hugepages-", "memory"'
            )
        ],
    ),
    Case(
        "overhead",
        {"overhead": {"gold": "1"}},
        [
            'spec.overhead.limits[gold]: Invalid value: "gold": must be a standard resource type or fully qualified',
            'spec.overhead.limits[gold]: Invalid value: "gold": must be a standard resource for containers',
        ],
    ),
]
VOLUMES = [
    Case(
        "two sources",
        volume(emptyDir={}, hostPath={"path": "/x"}),
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    Case(
        "two of one name",
        {"volumes": [{"name": "v", "emptyDir": {}}] * 2},
        ['spec.volumes[1].name: Duplicate value: "v"'],
    ),
    Case(
        "a path of the host",
        volume(hostPath={"path": "/a/../b", "type": "X"}),
        [
            "spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            (
                'spec.volumes[0].hostPath.type: Unsupported value: "X": supported values: "", '
                '"BlockDevice", "CharDevice", '
                '"Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
            ),
        ],
    ),
    Case(
        "files of a secret",
        volume(secret={"secretName": "s", "defaultMode": 512, "items": [{"key": "", "path": "/a"}]}),
        [
            (
                "spec.volumes[0].secret.defaultMode: Invalid value: 512: "
                "must be a number between 0 and 0777 (octal), both inclusive"
            ),
            "spec.volumes[0].secret.items[0].key: Required value",
            'spec.volumes[0].secret.items[0].path: Invalid value: "/a": must be a relative path',
        ],
    ),
    Case(
        "a claim without a name",
        volume(persistentVolumeClaim={}),
        ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
    ),
    Case(
        "a token without an account",
        volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 10}}]}),
        [
            (
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 10: "
                "may not specify a duration less than 10 minutes"
            ),
            (
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: "
                "must not be specified when serviceAccountName is not set"
            ),
        ],
    ),
    Case(
        "an ephemeral claim",
        volume(ephemeral={"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": {}}}),
        [
            "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            (
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: "
                "at least 1 access mode is required"
            ),
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        ],
    ),
    Case(
        "a mount of nothing",
        container(volumeMounts=[{"name": "nope", "mountPath": "/a"}, {"name": "nope", "mountPath": "/a"}]),
        [
            f'{C}.volumeMounts[0].name: Not found: "nope"',
            f'{C}.volumeMounts[1].name: Not found: "nope"',
            f'{C}.volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
        ],
    ),
    Case(
        "a mount that reaches out",
        {
            **volume(emptyDir={}),
            **container(
                volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "../b", "mountPropagation": "Bidirectional"}]
            ),
        },
        [
            f"{C}.volumeMounts.subPath: Invalid value: \"../b\": must not contain '..'",
            (
                f"{C}.volumeMounts.mountPropagation: Forbidden: "
                "Bidirectional mount propagation is available only to privileged containers"
            ),
        ],
    ),
    Case(
        "a device that is no block volume",
        {**volume(emptyDir={}), **container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])},
        [
            (
                f'{C}.volumeDevices[0].name: Invalid value: "v": '
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            )
        ],
    ),
]
SECURITY = [
    Case(
        "ids",
        {"securityContext": {"runAsUser": -1, "supplementalGroups": [2147483648]}},
        [
            "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            (
                "spec.securityContext.supplementalGroups[0]: Invalid value: 2147483648: "
                "must be between 0 and 2147483647, inclusive"
            ),
        ],
    ),
    Case(
        "a seccomp profile",
        {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
        [
            (
                "spec.securityContext.seccompProfile.localhostProfile: Required value: "
                "must be set when seccomp type is Localhost"
            )
        ],
    ),
    Case(
        "a sysctl of the host",
        {"hostNetwork": True, "securityContext": {"sysctls": [{"name": "net.ipv4.x", "value": "1"}]}},
        [
            (
                'spec.securityContext.sysctls[0].name: Invalid value: "net.ipv4.x": '
                "may not be specified when 'hostNetwork' is true"
            )
        ],
    ),
    Case(
        "host namespaces without host users",
        {"hostUsers": False, "hostPID": True},
        ["spec.HostPID: Forbidden: when `hostUsers` is false"],
    ),
    Case(
        "Linux options for Windows",
        {"os": {"name": "windows"}, "hostPID": True, **container(securityContext={"privileged": False})},
        [
            "spec.hostPID: Forbidden: cannot be set for a windows pod",
            f"{C}.securityContext.privileged: Forbidden: cannot be set for a windows pod",
        ],
    ),
    Case(
        "an unknown system",
        {"os": {"name": "plan9"}},
        ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"'],
    ),
    Case(
        "a host process",
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
        ["spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"],
    ),
]
PLACEMENT = [
    Case(
        "a node selector",
        {"nodeSelector": {"a": "not a value"}},
        [
            (
                'spec.nodeSelector: Invalid value: "not a value": a valid label must be an empty string or consist of '
                "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            )
        ],
    ),
    Case(
        "a node while it is gated",
        {"nodeName": "n", "schedulingGates": [{"name": "g"}]},
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    Case(
        "toleration seconds without NoExecute",
        {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]},
        ["spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
    Case(
        "an effect",
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "X"}]},
        [
            (
                'spec.tolerations[0].effect: Unsupported value: "X": supported values: "NoSchedule", '
                '"PreferNoSchedule", "NoExecute"'
            )
        ],
    ),
    Case(
        "an operator",
        {"tolerations": [{"key": "a", "operator": "X"}]},
        [
            (
                'spec.tolerations[0].operator: Unsupported value: "X": supported values: '
                '"Equal", "Exists", "Lt", "Gt", "SemverLt", "SemverGt", "SemverEq"'
            )
        ],
    ),
    Case(
        "a skew of nothing",
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
    ),
]
REST = [
    Case(
        "DNS",
        {"dnsPolicy": "None"},
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    Case(
        "name servers and searches",
        {"dnsConfig": {"nameservers": ["1.2.3.4", "x"], "searches": ["-"], "options": [{}]}},
        [
            (
                'spec.dnsConfig.nameservers[1]: Invalid value: "x": must be a valid IP address, (e.g. '
                "10.9.8.7 or 2001:db8::ffff)"
            ),
            (
                'spec.dnsConfig.searches[0]: Invalid value: "-": a lowercase RFC 1123 subdomain must '
                "consist of lower case "
                "alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                r"'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
            ),
            "spec.dnsConfig.options[0]: Required value: must not be empty",
        ],
    ),
    Case(
        "a restart policy",
        {"restartPolicy": "X"},
        ['spec.restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"'],
    ),
    Case(
        "a deadline",
        {"activeDeadlineSeconds": 0},
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    Case("a host name", {"hostname": "A"}, [f'spec.hostname: Invalid value: "A": {LABEL}']),
    Case(
        "an override of the host name",
        {"hostnameOverride": "x" * 65},
        ["spec.hostnameOverride: Too long: may not be more than 64 bytes"],
    ),
    Case(
        "a host alias",
        {"hostAliases": [{"ip": "fe80::1%eth0"}]},
        [
            (
                'spec.hostAliases[0].ip: Invalid value: "fe80::1%eth0": must be a valid IP address, '
                "(e.g. 10.9.8.7 or 2001:db8::ffff)"
            )
        ],
    ),
    Case(
        "a mirror without a node",
        {},
        [
            (
                'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set '
                "spec.nodeName if mirror pod annotation is set"
            )
        ],
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
    ),
    Case(
        "a deletion cost",
        {},
        [
            (
                'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": '
                "must be a 32bit integer"
            )
        ],
        {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}},
    ),
    Case(
        "too many annotations",
        {},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        {"annotations": {"a": "x" * 262144}},
    ),
    Case(
        "two controllers",
        {},
        [
            (
                "metadata.ownerReferences: Invalid value: "
                '[{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true},'
                '{"apiVersion":"v1","kind":"A","name":"b","uid":"2","controller":true}]: '
                'Only one reference can have Controller set to true. Found "true" in references '
                "for a and b"
            )
        ],
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": name, "uid": uid, "controller": True}
                for name, uid in (("a", "1"), ("b", "2"))
            ]
        },
    ),
]
CASES = [*CONTAINERS, *PORTS_AND_ENV, *PROBES, *RESOURCES, *VOLUMES, *SECURITY, *PLACEMENT, *REST]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_pod_gets_the_complete_list_of_errors(case: Case) -> None:
    assert create_problems(pod_of(case.spec, case.metadata)) == case.answers


@pytest.mark.parametrize(
    ("ip", "problem"),
    [
        ("10.0.0.1", ""),
        ("2001:db8::1", ""),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
    ],
)
def test_ambiguous_addresses_are_refused_since_kubernetes_1_36(ip: str, problem: str) -> None:
    pod = pod_of({"hostAliases": [{"ip": ip}]})
    assert [each.rsplit(": ", 1)[1] for each in create_problems(pod)] == ([problem] if problem else [])
    assert create_problems(pod, for_component(resolve(emulation="1.35"))) == []


# -- warnings


@dataclass(frozen=True)
class Warned:
    name: str
    spec: Tree
    warnings: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Warned(
            "an old label",
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
        ),
        Warned(
            "a null selector",
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
            ["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
        ),
        Warned(
            "a variable twice",
            container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)"}]),
            [f'{C}.env[1]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        Warned(
            "a port twice",
            container(ports=[{"containerPort": 1}, {"containerPort": 1, "name": "b"}]),
            [f"{C}.ports[1]: duplicate port definition with {C}.ports[0]"],
        ),
    ],
    ids=lambda case: case.name,
)
def test_what_is_accepted_but_dubious_comes_with_a_warning(case: Warned) -> None:
    assert admit_create(pod_of(case.spec), request()).warnings == case.warnings


@pytest.mark.parametrize(
    ("signer", "seconds", "expected"),
    [
        pytest.param("example.com/s", 3600, [], id="an hour"),
        pytest.param("example.com/s", 3599, ["must be >= 3600"], id="less than an hour"),
        pytest.param("example.com/s", 91 * 86400, [], id="91 days"),
        pytest.param("example.com/s", 91 * 86400 + 1, ["must be <= 7862400"], id="more"),
        pytest.param("kubernetes.io/s", 86401, ["must be <= 86400"], id="more than a day by a signer of Kubernetes"),
    ],
)
def test_certificates_of_pods_live_neither_too_short_nor_too_long(
    signer: str, seconds: int, expected: list[str]
) -> None:
    certificate = {"signerName": signer, "keyType": "ED25519", "keyPath": "k", "maxExpirationSeconds": seconds}
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": certificate}]}}
    problems = create_problems(pod_of({"volumes": [volume]}))
    where = "spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds"
    detail = "if provided, maxExpirationSeconds"
    assert problems == [f"{where}: Invalid value: {seconds}: {detail} {each}" for each in expected]


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("a.b/x", ""),
        ("A.b/x", ""),
        ("x", 'Invalid value: "x": must be a domain-prefixed key (such as "acme.io/foo")'),
        ("", "Required value"),
        ("x y", 'Invalid value: "x y": name part must consist of'),
        ("-a/x", 'Invalid value: "-a/x": prefix part a lowercase RFC 1123 subdomain'),
    ],
)
def test_annotations_of_a_certificate_have_a_domain(key: str, problem: str) -> None:
    certificate = {
        "signerName": "a.b/c",
        "keyType": "ED25519",
        "credentialBundlePath": "x",
        "userAnnotations": {key: "1"},
    }
    volume = {"name": "v", "projected": {"sources": [{"podCertificate": certificate}]}}
    where = "spec.volumes[0].projected.sources[0].podCertificate.userAnnotations"
    found = create_problems(pod_of({"volumes": [volume]}))
    assert [each[: len(where) + 2 + len(problem)] for each in found] == ([f"{where}: {problem}"] if problem else [])


@pytest.mark.parametrize(
    ("restart", "policy", "problems"),
    [
        (None, "NotRequired", []),
        (
            None,
            "RestartContainer",
            [
                (
                    'spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": '
                    "must not be set to 'RestartContainer' for non-sidecar initContainers"
                )
            ],
        ),
        ("Always", "RestartContainer", []),
    ],
)
def test_only_sidecars_among_init_containers_restart_for_a_resize(
    restart: str | None, policy: str, problems: list[str]
) -> None:
    policies = [{"resourceName": "cpu", "restartPolicy": policy}]
    container = {"name": "d", "image": "i", "restartPolicy": restart, "resizePolicy": policies}
    assert create_problems(pod_of({"initContainers": [container]})) == problems
