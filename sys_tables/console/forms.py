"""Forms: their fields, and the check that a POST comes from a page of the same session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sys_tables.console.signing_in import Session, is_same

MAX_FORM_BYTES = 64 << 10
Form = Mapping[str, str]


def form_route(path: str, handle: Callable[[Request, Form], Awaitable[Response]], name: str) -> Route:
    """Returns the route of a form. Only a POST from a page of the same session reaches `handle`."""

    async def endpoint(request: Request) -> Response:
        form = await _form(request)
        session: Session = request.state.session
        if not is_same(form.get("csrf_token", ""), session.csrf_token):
            raise HTTPException(403, "This form does not come from a page of this session. Go back, reload the page and try again.")
        return await handle(request, form)

    return Route(path, endpoint, methods=["POST"], name=name)


async def _form(request: Request) -> Form:
    """Returns the fields of a form. Raises HTTPException for a body that is too long or not a form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413, "The form is too long.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error
