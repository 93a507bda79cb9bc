"""The help page, and the pages of the documentation."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sys_tables.console.help.documents import documents, rendered, section, title
from sys_tables.console.pages import Pages

TOPICS = (
    ("When something is wrong", ("on-call", "errors", "lake-repair", "stopped-buckets", "calls", "validate")),
    ("What runs", ("how-it-works", "rounds", "freshness", "tierers", "backlog", "kv-snapshots", "upkeep", "health")),
    ("Who may do what", ("security", "grants", "security-grants")),
    ("Settings and columns", ("options", "reference", "cli", "console")),
    ("SQL", ("connect", "system-tables", "offline", "data-tables")),
)
"""Pages of the documentation on the help page, by topic."""
KEYS = (
    ("/", "to the search or the statement of the page"),
    ("j, k", "to the next, the previous row of a table"),
    ("Enter", "open the page of the row"),
    ("Ctrl-Enter", "run the statement of the SQL page"),
    ("Esc", "leave a field"),
    ("?", "this page"),
)
"""Keys that work on all pages. Further ones are declared with the navigation."""


def help_routes(pages: Pages) -> list[Route]:
    """Returns the routes."""

    async def show(request: Request) -> Response:
        words = await run_in_threadpool(lambda: rendered(section("concepts", "Words"), str(request.base_url)))
        topics = [(topic, [(name, title(name)) for name in names]) for topic, names in TOPICS]
        return pages.page(request, "help.html", {"words": words, "topics": topics, "keys": KEYS})

    async def document(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in documents():
            raise HTTPException(404, "There is no such page of the documentation.")
        content = await run_in_threadpool(lambda: rendered(documents()[name], str(request.base_url)))
        return pages.page(request, "document.html", {"title": title(name), "content": content})

    return [Route("/help", show, name="help"), Route("/docs/{name}", document, name="document")]
