"""`RuleStrategy`: the strategy of a kind with the same rules for create and update.

Metadata is validated first, then the object. A kind implements its rules once, in `rules`, which also gets the old
object (None for a create) for immutable fields. Read next: ``configuration.py`` for
a small example, ``node.py`` for one with a life of its own.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from mooring.admission import meta
from mooring.admission.strategy import Request, StatusStrategy, Strategy
from mooring.api import meta_v1, names
from mooring.api.field_errors import Errors

T = TypeVar("T", bound=meta_v1.Resource)


class RuleStrategy(Strategy[T]):
    """A strategy with the same rules for create and update, and a `status` subresource if the kind has one."""

    def __init__(self) -> None:
        super().__init__({"status": self.status_strategy()} if self.has_status else None)

    def status_strategy(self) -> Strategy[T]:
        return RuleStatusStrategy(self)

    def name_check(self, name: str) -> names.Messages:
        """Validate the syntax of the kind's names."""
        return names.dns1123_subdomain(name)

    def name_check_for(self, request: Request) -> Callable[[str], names.Messages]:
        """Return the function that validates names, which may depend on the version."""
        return self.name_check

    def validate_create(self, obj: T, request: Request) -> Errors:
        errors = meta.validate_object_meta(
            obj.metadata, namespaced=self.namespaced, name_check=self.name_check_for(request)
        )
        return errors + self.rules(obj, None, request)

    def validate_update(self, new: T, old: T, request: Request) -> Errors:
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        return errors + self.rules(new, old, request)

    def rules(self, obj: T, old: T | None, request: Request) -> Errors:
        """Validate the object without its metadata. `old` is None for a create."""
        return []

    def status_rules(self, new: T, old: T, request: Request) -> Errors:
        """Validate a change of the status."""
        return []


class RuleStatusStrategy(StatusStrategy[T], Generic[T]):
    """The `status` subresource of a `RuleStrategy`: the metadata's rules, then the kind's `status_rules`."""

    def __init__(self, main: RuleStrategy[T]) -> None:
        super().__init__(main)
        self.kind_rules = main

    def validate_update(self, new: T, old: T, request: Request) -> Errors:
        return super().validate_update(new, old, request) + self.kind_rules.status_rules(new, old, request)
