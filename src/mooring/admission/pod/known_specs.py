"""Remembers the PodSpecs of new pods in which nothing was wrong, because pods of one template have the same.

Telling that a spec is one of them takes its JSON and a lookup, a small part of the time that all its rules take.
What is to be warned about in it is remembered too. Servers and simulations have one each, and hand it in with every
`Request`. Called by ``strategy.py``; the rules are in ``spec.py``.
"""

from mooring.admission.pod.rules import PodRules
from mooring.admission.pod.spec import validate_pod_spec
from mooring.admission.pod.warnings import pod_spec_warnings
from mooring.api import codec
from mooring.api.core_v1 import PodSpec
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

_SPECS, _SPEC_BYTES = 512, 16 * 1024


class KnownSpecs:
    """By rules and content. Its owner has the same rules as long as it runs; other rules begin anew."""

    def __init__(self) -> None:
        self._found: tuple[PodRules | None, dict[bytes, list[str]]] = (None, {})
        self._last: tuple[PodSpec | None, bytes] = (None, b"")

    def validate(self, spec: PodSpec, metadata: ObjectMeta, path: Path, rules: PodRules) -> list[FieldError]:
        """As `validate_pod_spec`."""
        content = _content(spec)
        self._last = (spec, content)
        if not content:
            return validate_pod_spec(spec, metadata, path, rules)
        if self._found[0] is not rules and self._found[0] != rules:
            self._found = (rules, {})
        sound = self._found[1]
        if content in sound:
            return []
        errors = validate_pod_spec(spec, metadata, path, rules)
        if not errors:
            if len(sound) >= _SPECS:
                sound.clear()
            sound[content] = pod_spec_warnings(spec, path)
        return errors

    def warnings(self, spec: PodSpec, path: Path) -> list[str]:
        """As `pod_spec_warnings`; without work for the spec that was validated last."""
        last, content = self._last
        known = self._found[1].get(content) if last is spec else None
        return pod_spec_warnings(spec, path) if known is None else known


def _content(spec: PodSpec) -> bytes:
    """All that the rules look at; empty if that is more than the spec, or too much to be remembered."""
    if any(volume.ephemeral is not None for volume in spec.volumes):
        return b""  # the claim is named after the pod
    try:
        content = codec.encode(spec)
    except UnicodeEncodeError:  # text that no JSON can say; the rules tell where
        return b""
    return content if len(content) <= _SPEC_BYTES else b""
