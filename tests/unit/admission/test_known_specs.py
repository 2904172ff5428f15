"""The cache of valid pod specs belongs to its owner: other rules and other owners validate again."""

import pytest
from msgspec import structs

from admission_pods import OFF, ON, pod_of, request
from mooring.admission.options import AdmissionOptions
from mooring.admission.pipeline import admit_create
from mooring.admission.pod import known_specs
from mooring.admission.pod.known_specs import ValidSpecCache
from mooring.api.errors import Invalid

pytestmark = pytest.mark.req("5471.3a")
SPEC = {"tolerations": [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]}


def _admit(known: ValidSpecCache, options: AdmissionOptions) -> None:
    admit_create(pod_of(SPEC), structs.replace(request(options), known_specs=known))


def test_a_spec_that_is_known_is_not_validated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ValidSpecCache()
    _admit(known, ON)
    monkeypatch.setattr(known_specs, "validate_pod_spec", lambda *_: pytest.fail("it was judged again"))
    _admit(known, ON)
    with pytest.raises(pytest.fail.Exception):
        _admit(ValidSpecCache(), ON)


def test_other_rules_validate_a_known_spec_again() -> None:
    known = ValidSpecCache()
    _admit(known, ON)
    with pytest.raises(Invalid):
        _admit(known, OFF)
    _admit(known, ON)
