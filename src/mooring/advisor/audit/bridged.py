"""Find constraints in annotations that the bridge has not lowered yet: listed as uses that no gate or version
breaks."""

from collections.abc import Iterator

from mooring.advisor.audit.options import COMPATIBILITY
from mooring.advisor.audit.outcomes import Subject
from mooring.advisor.audit.results import Effect, Finding
from mooring.advisor.audit.uses import Uses, value_at
from mooring.advisor.lint import specs
from mooring.advisor.lint.specs import PodSpecAt
from mooring.api import codec
from mooring.api.core_v1 import Affinity, Pod, PodSpec
from mooring.constraints import annotations

_UNBROKEN = "the bridge says it in stock words, which no gate decides about"
_PLACES = {
    "spec.tolerations": annotations.TOLERATIONS,
    "spec.affinity.nodeAffinity": annotations.NODE_AFFINITY,
}


def findings(subject: Subject, uses: Uses) -> Iterator[Finding]:
    """Yield the constraints in annotations of a pod or template; `mooring lint` reports invalid ones."""
    at = specs.pod_spec(subject.object)
    if at is None or not annotations.has_constraints(at.annotations) or not _waits(subject, at):
        return
    try:
        said = annotations.read(at.annotations)
    except annotations.AnnotationError:
        return
    spec = PodSpec(tolerations=list(said.tolerations), affinity=Affinity(node_affinity=said.node_affinity))
    pod = Pod(spec=spec)
    tree = codec.to_tree(pod)
    for use in uses.of(pod):
        place = next((place for place in _PLACES if use.field.startswith(place)), None)
        if place is None or use.feature == COMPATIBILITY:  # every server can read an annotation
            continue
        yield Finding(
            object=subject.reference,
            field=f"{at.annotations_path}[{_PLACES[place]}]{use.field.removeprefix(place)}",
            value=value_at(tree, use.field),
            feature=use.feature,
            proposal=use.switch.proposal,
            effect=Effect.UNAFFECTED,
            message=_UNBROKEN,
        )


def _waits(subject: Subject, at: PodSpecAt) -> bool:
    return not isinstance(subject.object, Pod) or any(
        gate.name == annotations.GATE for gate in at.spec.scheduling_gates
    )
