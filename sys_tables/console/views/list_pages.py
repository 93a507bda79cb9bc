"""Shows the declared lists."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sys_tables.console.pages import Pages
from sys_tables.console.reader import Reader, page_number
from sys_tables.console.views.declared import VIEWS, View


def list_routes(pages: Pages, reader: Reader) -> list[Route]:
    """Returns the routes of all lists."""
    return [_route(pages, reader, view) for view in VIEWS]


def _route(pages: Pages, reader: Reader, view: View) -> Route:
    async def show(request: Request) -> Response:
        number = page_number(request.query_params)
        parts = [part.panel(request.query_params) for part in view.parts]
        filled = [await run_in_threadpool(reader.filled, panel, None if place else number) for place, panel in enumerate(parts)]
        chosen = view.parameters(request.query_params)
        previous, following = (
            str(request.url_for(view.name).include_query_params(**view.parameters(request.query_params, page)))
            for page in (number - 1, number + 1)
        )
        content = {"view": view, "filled": filled, "chosen": chosen, "number": number, "previous": previous, "following": following}
        return pages.page(request, "list.html", content)

    return Route(f"/{view.name}", show, name=view.name)
