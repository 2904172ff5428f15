"""Remembers the PodSpecs in which nothing was wrong, because pods of one template have the same.

Telling that a spec is one of them takes its JSON and a lookup, a small part of the time that all its rules take.
What is to be warned about in new ones is remembered too. Servers and simulations have one each, and hand it in with
every `Request`. Called by ``strategy.py``; the rules are in ``spec.py``.
"""

import hashlib
from collections.abc import Callable

from mooring.admission.pod.rules import PodRules
from mooring.admission.pod.spec import validate_pod_spec
from mooring.admission.pod.warnings import pod_spec_warnings
from mooring.api import codec
from mooring.api.core_v1 import PodSpec
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

_SPECS = 4096


class KnownSpecs:
    """New pods and changed ones apart, as they have other rules."""

    def __init__(self) -> None:
        self._new = _SoundSpecs(pod_spec_warnings)
        self._changed = _SoundSpecs(lambda _spec, _path: [])
        self._last: tuple[PodSpec | None, bytes] = (None, b"")

    def validate(self, spec: PodSpec, metadata: ObjectMeta, path: Path, rules: PodRules) -> list[FieldError]:
        """As `validate_pod_spec`, for a new pod."""
        content = _content(spec)
        self._last = (spec, content)
        return self._new.validate(spec, content, metadata, path, rules)

    def validate_changed(self, spec: PodSpec, metadata: ObjectMeta, path: Path, rules: PodRules) -> list[FieldError]:
        """As `validate_pod_spec`, for what a pod was changed to."""
        return self._changed.validate(spec, _content(spec), metadata, path, rules)

    def warnings(self, spec: PodSpec, path: Path) -> list[str]:
        """As `pod_spec_warnings`; without work for the spec that was validated last."""
        last, content = self._last
        known = self._new.warnings.get(content) if last is spec else None
        return pod_spec_warnings(spec, path) if known is None else known


class _SoundSpecs:
    """By content. Its owner has the same rules for most; other rules begin anew."""

    def __init__(self, warnings_of: Callable[[PodSpec, Path], list[str]]) -> None:
        self.warnings: dict[bytes, list[str]] = {}
        self._warnings_of = warnings_of
        self._rules: PodRules | None = None

    def validate(
        self, spec: PodSpec, content: bytes, metadata: ObjectMeta, path: Path, rules: PodRules
    ) -> list[FieldError]:
        if self._rules is not rules and self._rules != rules:
            self._rules, self.warnings = rules, {}
        if content in self.warnings:
            return []
        errors = validate_pod_spec(spec, metadata, path, rules)
        if content and not errors:
            if len(self.warnings) >= _SPECS:
                self.warnings.clear()
            self.warnings[content] = self._warnings_of(spec, path)
        return errors


def _content(spec: PodSpec) -> bytes:
    """A digest of all that the rules look at; empty if that is more than the spec."""
    if any(volume.ephemeral is not None for volume in spec.volumes):
        return b""  # the claim is named after the pod
    try:
        return hashlib.sha256(codec.encode(spec)).digest()
    except UnicodeEncodeError:  # text that no JSON can say; the rules tell where
        return b""
