"""The REST API at ``/api/v1/``: the routes of both apps, and their errors in one shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any, cast

from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from ninja import NinjaAPI, Router, Swagger
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.renderers import JSONRenderer
from ninja.responses import Response
from ninja.security.http import HttpAuthBase

from agents.api import routers as fleet_routers
from memory.api import routers as memory_routers
from memory.problems import Problem
from memory.redaction import hide_secret_texts
from zoea.api import openapi
from zoea.api.gate import answer_problem
from zoea.auth import Caller

DESCRIPTION = """\
Watch and steer a fleet of Myses, read what each one remembers, and search it.

Send `Authorization: Bearer <token>` (made by `manage.py create_token`), or use
the browser session with its CSRF token. Lists answer `{"items", "next"}`; give
`next` back as `cursor`. Errors are `{"detail", "code"}`. A write with an
`Idempotency-Key` header is done once, however often it is sent.
"""


# Faults that pydantic tells in words of Python, by their type.
_PLAIN_FAULTS: Mapping[str, str] = {
    "extra_forbidden": "there is no such field: leave it out",
    "model_attributes_type": "give a JSON object",
    "model_type": "give a JSON object",
}


class Admitted(HttpAuthBase):
    """Takes the caller that the gate has admitted; nobody else comes in."""

    openapi_scheme = "bearer"

    def __call__(self, request: HttpRequest) -> Caller | None:
        caller: Caller | None = getattr(request, "caller", None)
        return caller


class GateParser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        """Take the body as the gate has parsed it."""
        return request.json  # type: ignore[attr-defined]


class MaskingRenderer(JSONRenderer):
    """Hides secrets in all texts of an answer (A11), but for one just made."""

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> Any:
        if not getattr(request, "keeps_texts", False):
            data = hide_secret_texts(data, but=getattr(request, "made_secret", ""))
        return super().render(request, data, response_status=response_status)


class Api(NinjaAPI):
    """The API, with what the gate adds to every route in its OpenAPI document.

    That takes long to make, and is the same as long as the process lives.
    """

    _document = b""
    _making = Lock()

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: Any = None
    ) -> OpenAPISchema:
        if path_prefix is None and not path_params:
            # The caller's own: whoever changes it changes no other's.
            return cast("OpenAPISchema", json.loads(self.encode_document()))
        return self._make_document(path_prefix, path_params)

    def encode_document(self) -> bytes:
        """The document of the API at its usual place, as JSON."""
        with self._making:
            if not self._document:
                self._document = Response(self._make_document()).content
            return self._document

    def _make_document(
        self, path_prefix: str | None = None, path_params: Any = None
    ) -> OpenAPISchema:
        document = super().get_openapi_schema(
            path_prefix=path_prefix, path_params=path_params
        )
        openapi.complete_document(document)
        return document


api = Api(
    title="Zoea",
    version="1",
    description=DESCRIPTION,
    auth=Admitted(),
    parser=GateParser(),
    renderer=MaskingRenderer(),
    docs=Swagger(settings={"validatorUrl": None, "persistAuthorization": False}),
    # It would answer any method.
    docs_decorator=require_safe,
    urls_namespace="api",
)


@api.exception_handler(Problem)
def _problem(request: HttpRequest, error: Problem) -> HttpResponse:
    return answer_problem(error)


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fault = error.errors[0]
    place = [str(part) for part in fault["loc"]]
    # A body's own parameter name means nothing to the client.
    shown = place[2:] if place[:1] == ["body"] else place[1:]
    told = str(fault["msg"]).removeprefix("Value error, ")
    said = _PLAIN_FAULTS.get(str(fault["type"]), told)
    detail = f"{'.'.join(shown) or place[0]}: {said}."
    return answer_problem(Problem(422, "invalid", detail))


@api.exception_handler(HttpError)
def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    codes = {401: "unauthenticated", 403: "forbidden"}
    code = codes.get(error.status_code, "bad_request")
    return answer_problem(Problem(error.status_code, code, str(error)))


@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return answer_problem(Problem(404, "not_found", "There is nothing here."))


@api.exception_handler(DataError)
def _unstorable(request: HttpRequest, error: DataError) -> HttpResponse:
    return answer_problem(
        Problem(422, "invalid", "A value is outside of what can be stored.")
    )


def _mount_routers(package: str, routers: Mapping[str, Router]) -> None:
    """Add the routers; an operation's id is its package, router and function.

    Clients are generated from these ids, so they do not follow files that move.
    """
    for name, router in routers.items():
        for path in router.path_operations.values():
            for operation in path.operations:
                made = f"{package}_{name}_{operation.view_func.__name__}"
                operation.operation_id = operation.operation_id or made
        api.add_router("", router)


_mount_routers("agents_api", fleet_routers)
_mount_routers("memory_api", memory_routers)


@require_safe
def read_document(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document, which ninja's own view would encode anew for each."""
    return HttpResponse(api.encode_document(), content_type="application/json")
