"""Type-check ValidatingAdmissionPolicies against the kinds that they match, and write the result to their status."""

from msgspec import structs

from mooring.api.admissionregistration_v1 import (
    TypeChecking,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyStatus,
)
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.client import Informer
from mooring.controllers.controller import Context, Controller


class ValidatingPolicyStatusController(Controller):
    """The controller that type-checks policies; reconciles them by name, each generation once."""

    name = "validatingadmissionpolicy-status"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._scheme = context.options.scheme
        if not self.client.knows(ValidatingAdmissionPolicy):
            return  # not served by default before 1.30
        self._policies: Informer[ValidatingAdmissionPolicy] = context.informers.of(ValidatingAdmissionPolicy)
        self._definitions: Informer[CustomResourceDefinition] = context.informers.of(CustomResourceDefinition)
        self.follow(self._policies)

    async def reconcile(self, key: str) -> None:
        policy = self._policies.get(key)
        if policy is None or policy.status.observed_generation >= policy.metadata.generation:
            return
        from mooring.admission.policy.type_checking import find_expression_warnings  # noqa: PLC0415 - most clusters have none

        found = find_expression_warnings(policy, self._scheme, self._definitions.objects())
        checking = TypeChecking(expression_warnings=found)
        status = ValidatingAdmissionPolicyStatus(
            observed_generation=policy.metadata.generation, type_checking=checking, conditions=policy.status.conditions
        )
        await self.client.update_status(structs.replace(policy, status=status))
