"""NetworkPolicies: validated and stored; an external network plugin implements them."""

from mooring.admission.addresses import network_of, validate_cidr, validate_legacy_cidr
from mooring.admission.rule_strategy import RuleStrategy
from mooring.admission.strategy import Request
from mooring.api import field_errors, label_selector, names
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.networking_v1 import IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort

_SPEC = Path("spec")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")


class NetworkPolicyStrategy(RuleStrategy[NetworkPolicy]):
    def default(self, obj: NetworkPolicy) -> None:
        spec = obj.spec
        ports = [port for rule in spec.ingress for port in rule.ports]
        for port in ports + [port for rule in spec.egress for port in rule.ports]:
            port.protocol = port.protocol or "TCP"
        if not spec.policy_types:
            spec.policy_types = ["Ingress", "Egress"] if spec.egress else ["Ingress"]

    def rules(self, obj: NetworkPolicy, old: NetworkPolicy | None, request: Request) -> list[FieldError]:
        spec = obj.spec
        errors = label_selector.validate(spec.pod_selector, _SPEC.child("podSelector"))
        sides = (
            ("ingress", "from", [(rule.ports, rule.from_) for rule in spec.ingress]),
            ("egress", "to", [(rule.ports, rule.to) for rule in spec.egress]),
        )
        before = _ranges(old)
        for side, whom, rules in sides:
            for index, (ports, peers) in enumerate(rules):
                here = _SPEC.child(side).index(index)
                for at, port in enumerate(ports):
                    errors += _port(port, here.child("ports").index(at))
                for at, peer in enumerate(peers):
                    errors += _peer(peer, here.child(whom).index(at))
                    if peer.ip_block is not None and request.options.strict_addresses:
                        errors += _ambiguous(peer.ip_block, before, here.child(whom).index(at).child("ipBlock"))
        types = _SPEC.child("policyTypes")
        if len(spec.policy_types) > len(_TYPES):
            detail = "may not specify more than two policyTypes"
            return [*errors, field_errors.invalid(types, spec.policy_types, detail)]
        return errors + [
            field_errors.not_supported(types.index(index), each, _TYPES)
            for index, each in enumerate(spec.policy_types)
            if each not in _TYPES
        ]


def _ranges(policy: NetworkPolicy | None) -> frozenset[str]:
    if policy is None:
        return frozenset()
    peers = [peer for rule in policy.spec.ingress for peer in rule.from_]
    peers += [peer for rule in policy.spec.egress for peer in rule.to]
    blocks = [peer.ip_block for peer in peers if peer.ip_block is not None]
    return frozenset(text for block in blocks for text in (block.cidr, *block.except_))


def _ambiguous(block: IPBlock, before: frozenset[str], path: Path) -> list[FieldError]:
    places = [(block.cidr, path.child("cidr"))]
    places += [(text, path.child("except").index(index)) for index, text in enumerate(block.except_)]
    return [
        error
        for text, here in places
        if text not in before and network_of(text) is not None
        for error in validate_legacy_cidr(text, here, strict=True)
    ]


def _port(port: NetworkPolicyPort, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if port.protocol is not None and port.protocol not in _PROTOCOLS:
        errors.append(field_errors.not_supported(path.child("protocol"), port.protocol, _PROTOCOLS))
    here, end = path.child("port"), path.child("endPort")
    if isinstance(port.port, int):
        errors += [field_errors.invalid(here, port.port, message) for message in names.port_number(port.port)]
        if port.end_port is not None:
            problems = [] if port.end_port >= port.port else ["must be greater than or equal to `port`"]
            problems += names.port_number(port.end_port)
            errors += [field_errors.invalid(end, port.end_port, message) for message in problems]
        return errors
    if port.end_port is not None:
        why = "not specified" if port.port is None else "non-numeric"
        errors.append(field_errors.invalid(end, port.end_port, f"may not be specified when `port` is {why}"))
    return errors + (names.validate(here, port.port, names.port_name(port.port)) if port.port is not None else [])


def _peer(peer: NetworkPolicyPeer, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    selectors = (("podSelector", peer.pod_selector), ("namespaceSelector", peer.namespace_selector))
    given = [(name, selector) for name, selector in selectors if selector is not None]
    for name, selector in given:
        errors += label_selector.validate(selector, path.child(name))
    if peer.ip_block is not None:
        errors += _block(peer.ip_block, path.child("ipBlock"))
        if given:
            errors.append(field_errors.forbidden(path, "may not specify both ipBlock and another peer"))
    elif not given:
        errors.append(field_errors.required(path, "must specify a peer"))
    return errors


def _block(block: IPBlock, path: Path) -> list[FieldError]:
    here = path.child("cidr")
    if not block.cidr:
        return [field_errors.required(here)]
    errors = validate_cidr(block.cidr, here)
    whole = network_of(block.cidr)
    for index, text in enumerate(block.except_ if whole is not None else ()):
        at = path.child("except").index(index)
        errors += validate_cidr(text, at)
        part = network_of(text)
        if part is None or whole is None:
            continue
        inside = part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
        if not inside:
            errors.append(field_errors.invalid(at, text, "must be a strict subset of `cidr`"))
    return errors
