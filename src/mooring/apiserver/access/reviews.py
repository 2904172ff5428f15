"""Answer TokenReviews, the four access reviews, and TokenRequests of service accounts.

Objects of these kinds are answered when they are created, and never stored: ``requests/app.py`` looks for a handler in
`Reviews.answers` before it routes a request to the registry.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from mooring.admission import strategy as admission
from mooring.admission.options import AdmissionOptions
from mooring.admission.registry import strategy_of
from mooring.api import codec, errors
from mooring.api.authentication_v1 import (
    SelfSubjectReview,
    SelfSubjectReviewStatus,
    TokenRequest,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from mooring.api.authorization_v1 import (
    FieldSelectorAttributes,
    LocalSubjectAccessReview,
    NonResourceAttributes,
    NonResourceRule,
    ResourceAttributes,
    ResourceRule,
    SelfSubjectAccessReview,
    SelfSubjectRulesReview,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
    SubjectRulesReviewStatus,
)
from mooring.api.codec import FieldValidation
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.access.authn import Authenticator
from mooring.apiserver.access.authz import Attributes, Authorizer, selected_node
from mooring.apiserver.access.tokens import ISSUER, ServiceAccountTokens, VerifiedToken
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceHandler, ResourceHandlers, ResourceRoute
from mooring.apiserver.output.formats import format_json
from mooring.apiserver.registry.parameters import read_object
from mooring.base.clock import Clock

R = TypeVar("R", bound=Resource)
_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"


class Reviews:
    """Responds to TokenReviews, access reviews and TokenRequests; `answers` has the handler of each resource."""

    def __init__(
        self,
        scheme: Scheme,
        options: AdmissionOptions,
        clock: Clock,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        tokens: ServiceAccountTokens,
        admit: Callable[[Request, ResourceRoute, TokenRequest], Awaitable[None]],
    ) -> None:
        self._scheme = scheme
        self._options = options
        self._clock = clock
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens
        self._admit = admit
        self.answers: ResourceHandlers = {
            ("", "serviceaccounts", "token"): self._issue_token,
            (_AUTHENTICATION, "tokenreviews", ""): self._handler(TokenReview, self._review_token),
            (_AUTHENTICATION, "selfsubjectreviews", ""): self._handler(SelfSubjectReview, self._identify_user),
            (_AUTHORIZATION, "selfsubjectaccessreviews", ""): self._handler(SelfSubjectAccessReview, self._authorize),
            (_AUTHORIZATION, "subjectaccessreviews", ""): self._handler(SubjectAccessReview, self._authorize),
            (_AUTHORIZATION, "localsubjectaccessreviews", ""): self._handler(LocalSubjectAccessReview, self._authorize),
            (_AUTHORIZATION, "selfsubjectrulesreviews", ""): self._handler(SelfSubjectRulesReview, self._list_rules),
        }

    def _handler(self, cls: type[R], status_of: Callable[[Request, R], Awaitable[Any]]) -> ResourceHandler:
        """Return the handler that decodes a review, sets its status by `status_of`, and responds with it."""

        async def handle(request: Request, route: ResourceRoute) -> Response:
            review: Any = self._read_review(request, route, cls)
            review.status = await status_of(request, review)
            return _created_response(request, review)

        return handle

    async def _issue_token(self, request: Request, route: ResourceRoute) -> Response:
        kind = self._scheme.kind(f"{_AUTHENTICATION}/v1", "TokenRequest")
        if kind is None:
            raise errors.path_not_found()
        wanted = self._read_review(request, route, TokenRequest, kind)
        await self._admit(request, route, wanted)
        await self._tokens.check_node(request.user, route.namespace, route.name, wanted)
        return _created_response(request, await self._tokens.issue(route.namespace, route.name, wanted))

    async def _review_token(self, _: Request, review: TokenReview) -> TokenReviewStatus:
        found = await self._authenticator.review(review.spec.token, tuple(review.spec.audiences) or (ISSUER,))
        review.spec.token = ""  # the answer need not repeat it
        if isinstance(found, VerifiedToken):
            return TokenReviewStatus(authenticated=True, user=found.user, audiences=[*found.audiences])
        return TokenReviewStatus(error=found)

    async def _identify_user(self, request: Request, _: SelfSubjectReview) -> SelfSubjectReviewStatus:
        return SelfSubjectReviewStatus(user_info=request.user)

    async def _list_rules(self, request: Request, review: SelfSubjectRulesReview) -> SubjectRulesReviewStatus:
        if not review.spec.namespace:
            raise errors.bad_request("no namespace on request")
        rules = self._authorizer.rules(request.user, review.spec.namespace)
        return SubjectRulesReviewStatus(
            resource_rules=[
                msgspec.convert(rule, ResourceRule, from_attributes=True) for rule in rules if rule.resources
            ],
            non_resource_rules=[
                msgspec.convert(rule, NonResourceRule, from_attributes=True) for rule in rules if rule.non_resource_urls
            ],
        )

    async def _authorize(
        self, request: Request, review: SelfSubjectAccessReview | SubjectAccessReview | LocalSubjectAccessReview
    ) -> SubjectAccessReviewStatus:
        spec, user = review.spec, request.user
        if isinstance(spec, SubjectAccessReviewSpec):
            user = UserInfo(username=spec.user, uid=spec.uid, groups=spec.groups, extra=spec.extra)
        attributes = _reviewed_action(spec.resource_attributes, spec.non_resource_attributes)
        await self._authorizer.prepare(user, attributes)
        decision = self._authorizer.authorize(user, attributes)
        return SubjectAccessReviewStatus(allowed=decision.allowed, reason=decision.reason)

    def _read_review(self, request: Request, route: ResourceRoute, object_type: type[R], kind: Kind | None = None) -> R:
        """Decode the review in a request's body; raise BadRequest if it is malformed, Invalid if a field is wrong."""
        obj = read_object(request, kind or route.kind, FieldValidation.IGNORE).object
        assert isinstance(obj, object_type)  # noqa: S101 - the route's kind has this type
        obj.metadata.namespace = route.namespace
        strategy = strategy_of(object_type)
        strategy.default(obj)
        problems = strategy.validate_create(obj, admission.Request(options=self._options, now=self._clock.now()))
        if problems:
            raise errors.invalid(obj.kind, obj.metadata.name, problems, group=strategy.group)
        return obj


def _created_response(request: Request, obj: Resource) -> Response:
    accepted = request.negotiate_format()
    if accepted.shown_as:  # an answer has neither rows nor metadata worth showing alone
        raise errors.not_acceptable(["application/json", "application/yaml"])
    body, content_type = format_json(codec.encode(obj), accepted, request)
    return Response(201, body, content_type)


def _reviewed_action(resource: ResourceAttributes | None, other: NonResourceAttributes | None) -> Attributes:
    """Return the action that an access review asks about, in the form that the authorizer takes."""
    if other:
        return Attributes(verb=other.verb, path=other.path or "/")
    asked = resource or ResourceAttributes()
    what = (asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name)
    return Attributes(*what, selected_node=_node_in(asked.field_selector))


def _node_in(selector: FieldSelectorAttributes | None) -> str:
    """Return the node to which an access review's field selector (raw or parsed) restricts pods; else empty."""
    if selector is None:
        return ""
    for each in selector.requirements:
        if (each.key, each.operator, len(each.values)) == ("spec.nodeName", "In", 1):
            return each.values[0]
    return selected_node(selector.raw_selector)
