"""Cache valid PodSpecs by digest, because pods of one template have the same spec.

Encoding and a lookup take a small part of the time of full validation. Warnings about new specs are cached too. Servers
and simulations have one each and pass it with every `Request`.
"""

import hashlib
from collections.abc import Callable

from mooring.admission.pod.rules import PodRules
from mooring.admission.pod.spec import validate_pod_spec
from mooring.admission.pod.warnings import find_pod_spec_warnings
from mooring.api import codec
from mooring.api.core_v1 import PodSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

_MAX_SPECS = 4096


class ValidSpecCache:
    """A cache of valid PodSpecs by digest; new and updated pods have separate entries because their rules differ."""

    def __init__(self) -> None:
        self._new = _ValidSpecs(find_pod_spec_warnings)
        self._changed = _ValidSpecs(lambda _spec, _path: [])
        self._last: tuple[PodSpec | None, bytes] = (None, b"")

    def validate(self, spec: PodSpec, metadata: ObjectMeta, path: Path, rules: PodRules) -> Errors:
        """Return the errors of a new pod's spec; none if an equal spec was valid under the same rules."""
        content = _digest(spec)
        self._last = (spec, content)
        return self._new.validate(spec, content, metadata, path, rules)

    def validate_changed(self, spec: PodSpec, metadata: ObjectMeta, path: Path, rules: PodRules) -> Errors:
        """Return the errors of an updated pod's spec; none if an equal spec was valid under the same rules."""
        return self._changed.validate(spec, _digest(spec), metadata, path, rules)

    def warnings(self, spec: PodSpec, path: Path) -> list[str]:
        """Return the warnings about a PodSpec; from the cache if `validate` was last called with it."""
        last, content = self._last
        known = self._new.warnings.get(content) if last is spec else None
        return find_pod_spec_warnings(spec, path) if known is None else known


class _ValidSpecs:
    """Digests of PodSpecs that are valid under one set of rules, with their warnings; cleared when the rules differ."""

    def __init__(self, warnings_of: Callable[[PodSpec, Path], list[str]]) -> None:
        self.warnings: dict[bytes, list[str]] = {}
        self._warnings_of = warnings_of
        self._rules: PodRules | None = None

    def validate(self, spec: PodSpec, content: bytes, metadata: ObjectMeta, path: Path, rules: PodRules) -> Errors:
        if self._rules is not rules and self._rules != rules:
            self._rules, self.warnings = rules, {}
        if content in self.warnings:
            return []
        errors = validate_pod_spec(spec, metadata, path, rules)
        if content and not errors:
            if len(self.warnings) >= _MAX_SPECS:
                self.warnings.clear()
            self.warnings[content] = self._warnings_of(spec, path)
        return errors


def _digest(spec: PodSpec) -> bytes:
    if any(volume.ephemeral is not None for volume in spec.volumes):
        return b""  # the claim is named after the pod
    try:
        return hashlib.sha256(codec.encode(spec)).digest()
    except UnicodeEncodeError:  # not encodable as JSON; validation reports where
        return b""
