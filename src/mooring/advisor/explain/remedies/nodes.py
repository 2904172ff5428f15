"""Remedies for rejections because of a node's own fields: cordons, names, taints, labels, resources and ports."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from mooring.advisor.explain import labels as label_values
from mooring.advisor.explain import patches
from mooring.advisor.explain.images import containers_of
from mooring.advisor.explain.remedies import remedy
from mooring.advisor.explain.subject import set_fields, set_fields_in
from mooring.advisor.explain.view import PODS, Shortage, Unmet, View, format_amount, has_conditions, to_quantity
from mooring.advisor.explain.wording import format_requirement
from mooring.advisor.node_facts import NodeFacts, find_similar, format_taint
from mooring.api import core_v1
from mooring.api.states import priority
from mooring.constraints import requests, semver
from mooring.constraints.node_selector import required_terms
from mooring.constraints.tolerations import parse_canonical_int64, tolerates
from mooring.scheduler.facade import NodeInfo, host_ports, needed_features
from mooring.scheduler.framework import Status

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_SYSTEM = "node.kubernetes.io/"
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_CONTROL_PLANE_CAVEAT = "control-plane nodes are kept free for the control plane"
_STATE_CAVEAT = "the node has this taint because something is wrong with it"
_DEAD = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/network-unavailable")


def cordon_remedies(_view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    def uncordon(node: core_v1.Node) -> None:
        node.spec.unschedulable = False
        node.spec.taints = [taint for taint in node.spec.taints if taint.key != _UNSCHEDULABLE]

    command = patches.kubectl_command("uncordon", info.name)
    idea = remedy.Remedy("uncordon", remedy.BOUND, f"uncordon node {info.name}")
    yield remedy.with_object_change(idea, info.node, uncordon, command)
    toleration = core_v1.Toleration(key=_UNSCHEDULABLE, operator="Exists", effect="NoSchedule")
    summary, caveat = f"tolerate the taint {_UNSCHEDULABLE}", "nodes are cordoned for a reason"
    yield remedy.Remedy("tolerate cordons", remedy.LARGE, summary, _add_toleration_edit(toleration), caveat=caveat)


def node_name_remedies(view: View, _info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    summary = f"let the scheduler choose: drop spec.nodeName {view.pod.spec.node_name}"
    yield remedy.Remedy("drop nodeName", remedy.SMALL, summary, edit=set_fields(node_name=""))


# -- taints


def taint_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    untolerated = view.untolerated_taints(info.node)
    if not untolerated:
        return
    steps = [step for taint in untolerated if (step := _adjust_toleration(view, taint)) is not None]
    if len(steps) == len(untolerated):
        yield _combine_remedies("move bound", steps)
    edits = [_add_toleration_edit(_exact_toleration(taint)) for taint in untolerated]
    shown = " and ".join(format_taint(taint) for taint in untolerated)
    if any(taint.key in _DEAD for taint in untolerated):  # a pod would not run there
        yield remedy.add_node(view, info.node)
        return
    yield from _correct_tolerations(view, untolerated)
    is_system = any(taint.key.startswith(_SYSTEM) for taint in untolerated)
    is_control_plane = any(taint.key in _CONTROL_PLANE for taint in untolerated)
    yield remedy.Remedy(
        "tolerate",
        (remedy.LARGE if is_system or is_control_plane else remedy.SMALL) * len(edits),
        f"tolerate the taint {shown}" if len(edits) == 1 else f"tolerate the taints {shown}",
        edit=_apply_all(edits),
        caveat=_STATE_CAVEAT if is_system else _CONTROL_PLANE_CAVEAT if is_control_plane else "",
    )
    yield from _tolerate_range(view, untolerated)
    if not is_system and not is_control_plane:
        yield _untaint_remedy(info.node, untolerated)


def _correct_tolerations(view: View, untolerated: Sequence[core_v1.Taint]) -> Iterator[remedy.Remedy]:
    for taint in untolerated if len(untolerated) == 1 else ():
        for each in view.pod.spec.tolerations:
            if each.expression or not each.key or each.operator not in ("", "Equal", "Exists"):
                continue
            is_meant = each.key == taint.key or find_similar(each.key, [taint.key])
            if not is_meant or (each.key == taint.key and each.operator == "Equal" and not _is_typo(each, taint)):
                continue
            wanted = core_v1.Toleration(
                key=taint.key,
                operator=each.operator,
                value="" if each.operator == "Exists" else taint.value,
                effect=each.effect and taint.effect,
                toleration_seconds=each.toleration_seconds,
            )
            summary = f"correct the toleration {_format_toleration(each)} to {_format_toleration(wanted)}"
            yield remedy.Remedy("correct toleration", remedy.BOUND, summary, _replace_toleration_edit(each, wanted))


def _is_typo(toleration: core_v1.Toleration, taint: core_v1.Taint) -> bool:
    """Return whether a toleration with the taint's key has another effect, or a misspelling of the taint's value."""
    is_other_effect = bool(toleration.effect) and toleration.effect != taint.effect
    return is_other_effect or (toleration.value != taint.value and bool(find_similar(toleration.value, [taint.value])))


def _format_toleration(each: core_v1.Toleration) -> str:
    value = f"={each.value}" if each.value else ""
    return f"{each.key}{value}{f':{each.effect}' if each.effect else ''}"


def _replace_toleration_edit(old: core_v1.Toleration, new: core_v1.Toleration) -> remedy.Edit:
    def edit(spec: core_v1.PodSpec) -> bool:
        before = spec.tolerations
        spec.tolerations = [new if _are_same_toleration(each, old) else each for each in before]
        return any(_are_same_toleration(each, old) for each in before)

    return edit


def _are_same_toleration(one: core_v1.Toleration, other: core_v1.Toleration) -> bool:
    return (one.key, one.operator, one.value, one.effect) == (other.key, other.operator, other.value, other.effect)


def _exact_toleration(taint: core_v1.Taint) -> core_v1.Toleration:
    operator = "Equal" if taint.value else "Exists"
    return core_v1.Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)


def _tolerate_range(view: View, untolerated: Sequence[core_v1.Taint]) -> Iterator[remedy.Remedy]:
    if len(untolerated) != 1 or not view.features.constraints.numeric_tolerations:
        return
    key, effect = untolerated[0].key, untolerated[0].effect
    numbers: set[int] = view.taint_numbers.get((key, effect), set())
    if len(numbers) < 2 or parse_canonical_int64(untolerated[0].value) is None:
        return
    bound = min(numbers) - 1
    toleration = core_v1.Toleration(key=key, operator="Gt", value=str(bound), effect=effect)
    summary = f"tolerate {key} with any value above {bound} ({len(numbers)} values are in use)"
    yield remedy.Remedy("tolerate range", remedy.MODEST, summary, _add_toleration_edit(toleration))


def _untaint_remedy(node: core_v1.Node, untolerated: Sequence[core_v1.Taint]) -> remedy.Remedy:
    gone = {(taint.key, taint.effect) for taint in untolerated}

    def change(after: core_v1.Node) -> None:
        after.spec.taints = [taint for taint in after.spec.taints if (taint.key, taint.effect) not in gone]

    name, shown = node.metadata.name, [format_taint(taint) for taint in untolerated]
    command = patches.kubectl_command("taint", "node", name, *(f"{text}-" for text in shown))
    summary = f"remove {' and '.join(shown)} from node {name}"
    idea = remedy.Remedy("untaint", (remedy.MODEST + 1) * len(shown), summary, caveat="other pods may then come too")
    return remedy.with_object_change(idea, node, change, command)


def _combine_remedies(family: str, steps: Sequence[remedy.Remedy], size: int = 0) -> remedy.Remedy:
    """Return one remedy of several that edit the pod; `size` is added to the sum of their sizes."""
    return remedy.Remedy(
        family,
        size + sum(step.size for step in steps),
        " and ".join(step.summary for step in steps),
        edit=_apply_all([step.edit for step in steps if step.edit is not None]),
        distance=sum(step.distance for step in steps),
    )


def _adjust_toleration(view: View, taint: core_v1.Taint) -> remedy.Remedy | None:
    for each in view.pod.spec.tolerations:
        if each.expression or each.key != taint.key or each.effect not in ("", taint.effect):
            continue
        bound = label_values.accepting_bound(each.operator, taint.value, parse_canonical_int64)
        if bound is None or bound == each.value:
            continue
        wanted = core_v1.Toleration(key=each.key, operator=each.operator, value=bound, effect=each.effect)
        if tolerates(wanted, taint, view.features.constraints):
            way = "lower" if each.operator in ("Gt", "SemverGt") else "raise"
            text = f"{way} the bound of the toleration `{each.key} {each.operator} {each.value}` to {bound}"
            edit = _replace_toleration_edit(each, structs.replace(each, value=bound))
            return remedy.Remedy("", remedy.BOUND, text, edit, distance=_distance_between(each.value, bound))
    return None


def _distance_between(one: str, other: str) -> float:
    """Return how far two numbers or two versions are apart (minor and patch versions weigh less); 0 for other texts."""
    numbers = label_values.parse_lax_int64(one), label_values.parse_lax_int64(other)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1])
    versions = semver.parse_tolerant_or_none(one), semver.parse_tolerant_or_none(other)
    if versions[0] is None or versions[1] is None:
        return 0
    parts = zip(versions[0].precedence[:3], versions[1].precedence[:3], (1, 1e3, 1e6), strict=True)
    return float(sum(abs(left - right) / unit for left, right, unit in parts))


def _add_toleration_edit(toleration: core_v1.Toleration) -> remedy.Edit:
    def edit(spec: core_v1.PodSpec) -> bool:
        spec.tolerations.append(toleration)
        return True

    return edit


def _apply_all(edits: Sequence[remedy.Edit]) -> remedy.Edit:
    return lambda spec: all(edit(spec) for edit in edits)


# -- labels


def node_affinity_remedies(view: View, info: NodeInfo, status: Status) -> Iterator[remedy.Remedy]:
    if any("scheduler-enforced" in reason for reason in status.reasons):
        return
    pairs, terms = view.unmet_pairs(info.node), view.unmet_terms(info.node)
    fewest = min(terms, key=len, default=[])
    yield from _correct_labels(view, info.node, [*pairs, *fewest])
    wanted = label_values.labels_to_satisfy(view, info.node, [*pairs, *fewest])
    yield from remedy.label_node(view, info.node, wanted or {})
    steps = [_relax_requirement(each, info.node) for each in (*pairs, *fewest)]
    if steps:
        yield _combine_remedies("relax affinity", steps)
    if terms:
        yield remedy.Remedy("drop affinity", remedy.LARGE + 1, "drop the required node affinity", edit=_drop_required)


def _correct_labels(view: View, node: core_v1.Node, unmet: Sequence[Unmet]) -> Iterator[remedy.Remedy]:
    labels = node.metadata.labels
    for each in unmet if len(unmet) == 1 else ():
        requirement = each.requirement
        if requirement is None or each.field_name or requirement.operator not in ("In", "Exists"):
            continue
        key = each.key if each.key in labels else find_similar(each.key, labels)
        if not key:
            continue
        values = requirement.values
        meant = [value if value == labels[key] else find_similar(value, [labels[key]]) for value in values]
        others = (info.node.metadata.labels.get(each.key) for info in view.engine.cluster.node_infos())
        is_correct = any(value in values for value in others)
        if requirement.operator == "In" and (labels[key] not in meant or is_correct):
            continue
        value = labels[key] if requirement.operator == "In" else ""
        old = format_requirement(requirement, from_pair=each.term is None)
        new = f"{key}={value}" if value else key
        fields: dict[str, Any] = {"key": key} | ({"values": [value]} if value else {})
        edit = _rename_pair_edit(each.key, key, value) if each.term is None else _edit_condition(each, **fields)
        yield remedy.Remedy("correct label", remedy.BOUND, f"correct `{old}` to `{new}`", edit=edit)


def _rename_pair_edit(old: str, key: str, value: str) -> remedy.Edit:
    def edit(spec: core_v1.PodSpec) -> bool:
        if old not in spec.node_selector:
            return False
        spec.node_selector = {
            (key if each == old else each): (value if each == old else before)
            for each, before in spec.node_selector.items()
        }
        return True

    return edit


def _drop_required(spec: core_v1.PodSpec) -> bool:
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return False
    spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution = None
    return True


def _relax_requirement(unmet: Unmet, node: core_v1.Node) -> remedy.Remedy:
    requirement = unmet.requirement
    if unmet.term is None:
        text = f"drop the nodeSelector {unmet.key}"
        return remedy.Remedy(
            "", remedy.LARGE - 1, text, lambda spec: spec.node_selector.pop(unmet.key, None) is not None
        )
    if requirement is None:
        return remedy.Remedy(
            "", remedy.LARGE - 1, f"drop the condition `{unmet.expression}`", _drop_requirement_edit(unmet)
        )
    shown = format_requirement(requirement)
    value = node.metadata.labels.get(unmet.key)
    bound = None if value is None else label_values.accepting_bound(requirement.operator, value)
    if bound is not None:
        way = "lower" if requirement.operator in ("Gt", "SemverGt") else "raise"
        far = _distance_between(requirement.values[0], bound)
        text = f"{way} the bound of `{shown}` to {bound}"
        return remedy.Remedy("", remedy.BOUND, text, _edit_condition(unmet, values=[bound]), distance=far)
    if requirement.operator == "In" and value is not None and not unmet.field_name:
        text = f"let `{shown}` take {value} as well"
        return remedy.Remedy("", remedy.SMALL, text, _edit_condition(unmet, values=[*requirement.values, value]))
    return remedy.Remedy("", remedy.LARGE - 1, f"drop the condition `{shown}`", _drop_requirement_edit(unmet))


def _edit_condition(unmet: Unmet, **fields: Any) -> remedy.Edit:
    def entries(spec: core_v1.PodSpec) -> list[core_v1.NodeSelectorRequirement]:
        conditions = [(*term.match_expressions, *term.match_fields) for term in _terms_containing(unmet, spec)]
        return [each for of_term in conditions for each in of_term if each == unmet.requirement]

    return set_fields_in(entries, **fields)


def _terms_containing(unmet: Unmet, spec: core_v1.PodSpec) -> list[core_v1.NodeSelectorTerm]:
    """Return the term of a pod's required node affinity that has the condition, as a list; empty if it has none."""
    return [] if unmet.term is None else required_terms(spec)[unmet.term : unmet.term + 1]


def _drop_requirement_edit(unmet: Unmet) -> remedy.Edit:
    def edit(spec: core_v1.PodSpec) -> bool:
        for term in _terms_containing(unmet, spec):
            term.match_expressions = [each for each in term.match_expressions if each != unmet.requirement]
            term.match_fields = [each for each in term.match_fields if each != unmet.requirement]
            term.match_cel_expressions = [each for each in term.match_cel_expressions if each != unmet.expression]
            return has_conditions(term) or _drop_required(spec)  # a term without conditions holds nowhere
        return False

    return edit


# -- resources


def resource_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    shortages = view.shortages(info)
    for each in shortages:
        yield from _correct_resource(view, each.resource)
    less = _ask_for_less(view, shortages)
    if less is not None:
        yield less
    too_small = [each for each in shortages if each.allocatable < each.asked]
    freed = next(_delete_pods_remedies(view, info, [each for each in shortages if each not in too_small]), None)
    if not too_small:
        yield remedy.add_node(view, info.node)
    if not too_small and freed is not None:
        yield freed
    if less is None and too_small:  # neither is enough: ask for what an emptier node has
        shrunk = [replace(each, free=each.allocatable) for each in too_small]
        both = _ask_for_less(view, shrunk)
        left = [replace(each, asked=each.allocatable) if each in too_small else each for each in shortages]
        freed = next(_delete_pods_remedies(view, info, [each for each in left if each.missing > 0]), None)
        if both is not None and freed is not None:
            summary = f"{both.summary}, and {freed.summary}"
            yield replace(freed, family="less and delete", size=both.size + freed.size, summary=summary, edit=both.edit)


def _correct_resource(view: View, resource: str) -> Iterator[remedy.Remedy]:
    """Suggest the correct spelling of a resource that no node has, with tolerations for a node that has it."""
    infos = list(view.engine.cluster.node_infos())
    if any(resource in info.node.status.allocatable for info in infos):
        return
    meant = NodeFacts(info.node for info in infos).similar_resource(resource)
    holder = next((info for info in infos if meant in info.node.status.allocatable), None)
    if holder is None:
        return
    taints = view.untolerated_taints(holder.node)

    def rename(spec: core_v1.PodSpec) -> bool:
        found = [each.resources for each in containers_of(spec)]
        amounts = [each for of in found for each in (of.requests, of.limits) if resource in each]
        for each in amounts:
            each[meant] = each.pop(resource)
        return bool(amounts)

    also = f", and tolerate the taint {' and '.join(map(format_taint, taints))}" if taints else ""
    yield remedy.Remedy(
        "correct resource",
        remedy.BOUND,
        f"ask for {meant} instead of {resource}{also}",
        edit=_apply_all([rename, *(_add_toleration_edit(_exact_toleration(taint)) for taint in taints)]),
        node=holder.name,
    )


def _ask_for_less(view: View, shortages: Sequence[Shortage]) -> remedy.Remedy | None:
    steps = [step for each in shortages if (step := _reduce_request(view, each)) is not None]
    if not steps or len(steps) < len(shortages):
        return None
    return _combine_remedies("ask for less", steps, remedy.MODEST)


def _delete_pods_remedies(view: View, info: NodeInfo, shortages: Sequence[Shortage]) -> Iterator[remedy.Remedy]:
    freed = ", ".join(
        "room for a pod" if each.resource == PODS else f"{format_amount(each.resource, each.missing)} {each.resource}"
        for each in shortages
    )
    victims = _pods_to_delete(view, info, shortages) if shortages else []
    return remedy.delete_pods(view, victims, f", which frees {freed} on node {info.name}")


def _reduce_request(view: View, shortage: Shortage) -> remedy.Remedy | None:
    resource = shortage.resource
    if resource == PODS:
        return None
    spec = view.pod.spec
    is_whole = spec.resources is not None and resource in spec.resources.requests
    every = (*spec.containers, *spec.init_containers)
    containers = [each for each in every if resource in each.resources.requests]
    if not is_whole and not containers:
        return None
    largest = max(containers, key=lambda each: each.resources.requests[resource]) if not is_whole else None
    source = spec.resources if largest is None else largest.resources
    if source is None:
        return None
    before = requests.to_units(resource, source.requests[resource])
    after = before - shortage.missing
    part = shortage.missing / before
    who = "the pod" if largest is None else f"container {largest.name}"
    if after <= 0:
        if shortage.free > 0 or resource in (requests.CPU, requests.MEMORY):
            return None
        return remedy.Remedy(
            "", remedy.LARGE, f"drop {who}'s request for {resource}", _set_request_edit(largest, resource, None)
        )
    text = f"lower {who}'s request for {resource} from {source.requests[resource]} to {format_amount(resource, after)}"
    return remedy.Remedy("", int(4 * part), text, _set_request_edit(largest, resource, after), distance=part)


def _set_request_edit(container: core_v1.Container | None, resource: str, number: int | None) -> remedy.Edit:
    """Return an edit that sets or drops the request of a container, or of the whole pod if `container` is None."""

    def edit(spec: core_v1.PodSpec) -> bool:
        own = [each.resources for each in containers_of(spec) if container and each.name == container.name]
        found = own if container is not None else [spec.resources] if spec.resources is not None else []
        if number is None:
            found = [each for each in found if resource in each.requests or resource in each.limits]
        for each in found:
            _set_request(each, resource, number)
        return bool(found)

    return edit


def _set_request(of: core_v1.ResourceRequirements, resource: str, number: int | None) -> None:
    if number is None:
        of.requests.pop(resource, None)
        of.limits.pop(resource, None)
        return
    of.requests[resource] = to_quantity(resource, number)
    if resource in of.limits and resource not in (requests.CPU, requests.MEMORY, requests.EPHEMERAL_STORAGE):
        of.limits[resource] = of.requests[resource]  # of these requests and limits must be the same


def _pods_to_delete(view: View, info: NodeInfo, shortages: Sequence[Shortage]) -> list[core_v1.Pod]:
    """Return the fewest and least important pods of a node whose deletion frees the missing resources."""
    missing = {each.resource: each.missing for each in shortages}

    def freed_by(pod: core_v1.Pod) -> dict[str, int]:
        asked = view.engine.cluster.signatures.signature_of(pod).requests
        return {name: 1 if name == PODS else asked.get(name, 0) for name in missing}

    free = [pod for pod in info.pods if not any(each.kind == "DaemonSet" for each in pod.metadata.owner_references)]
    pods = sorted(free, key=lambda pod: (priority(pod), -sum(freed_by(pod)[name] / missing[name] for name in missing)))
    enough = [pod for pod in pods if all(freed_by(pod)[name] >= missing[name] for name in missing)]
    if enough:
        lowest = priority(enough[0])
        same = [pod for pod in enough if priority(pod) == lowest]
        return [min(same, key=lambda pod: sum(freed_by(pod).values()))]
    chosen: list[core_v1.Pod] = []
    for pod in pods:
        if any(missing[name] > 0 and freed_by(pod)[name] for name in missing):
            chosen.append(pod)
            missing = {name: left - freed_by(pod)[name] for name, left in missing.items()}
        if all(left <= 0 for left in missing.values()):
            return chosen
    return []


# -- features of the kubelet


def feature_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    missing = sorted(needed_features(view.pod.spec) - set(info.node.status.declared_features))

    def upgrade(node: core_v1.Node) -> None:
        node.status.declared_features = sorted({*node.status.declared_features, *missing})

    summary = f"upgrade the kubelet of node {info.name}, so that it declares {' and '.join(missing)}"
    changed = remedy.with_object_change(remedy.Remedy("upgrade kubelet", remedy.LARGE, summary), info.node, upgrade)
    yield replace(changed, changes=(structs.replace(changed.changes[0], command=""),))  # kubectl cannot do it


# -- ports


def port_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    held = view.port_holders(info)
    taken = {port.port for other in info.pods for port in host_ports(other.spec)}
    own = {port.port for port in view.signature.ports}
    wanted: dict[int, int] = {}
    for port, _ in held:
        if port.port not in wanted:
            free = next(each for each in range(port.port + 1, 65536 + port.port) if each not in taken | own)
            wanted[port.port] = free if free < 65536 else next(each for each in range(1024, 65536) if each not in taken)
            own.add(wanted[port.port])
    shown = " and ".join(f"{old} to {new}" for old, new in wanted.items())

    def edit(spec: core_v1.PodSpec) -> bool:
        found = [port for each in containers_of(spec) for port in each.ports if port.host_port in wanted]
        for port in found:
            port.host_port = wanted[port.host_port]
            port.container_port = port.host_port if spec.host_network else port.container_port
        return bool(found)

    yield remedy.Remedy("other port", remedy.MODEST, f"change the host port {shown}", edit)
    yield remedy.add_node(view, info.node)
    yield from remedy.delete_pods(view, [pod for _, pod in held], f", which has the port on node {info.name}")
