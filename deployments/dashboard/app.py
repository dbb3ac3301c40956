"""The web application: routes, the password, and what every answer carries."""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import duckdb
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from deployments.dashboard.prefect_api import Prefect
from deployments.dashboard.reader import Reader
from deployments.dashboard.templates import render
from storage.errors import UserError
from storage.workspace import Workspace

Form = Mapping[str, str]
Page = Callable[["Board", Request, Form], "str | Response"]

# No script, style, picture or connection but our own, and no script within a page: what a model wrote cannot run.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK: tuple[str | None, ...] = ("127.0.0.1", "localhost", "::1")
COOKIE = "criticgen_dashboard"
MOST_FORM_BYTES = 100_000


@dataclass
class Board:
    """What all pages share. ``sessions`` are the cookies that the password was given for."""

    workspace: Workspace
    reader: Reader
    prefect: Prefect
    password: str | None = None
    only_loopback: bool = True
    sessions: set[str] = field(default_factory=set)


def application(board: Board) -> Starlette:
    """The dashboard of one workspace."""
    from deployments.dashboard import pages

    routes = [Route(path, _endpoint(board, page), methods=list(methods)) for path, page, methods in pages.ROUTES]
    static = StaticFiles(directory=str(files("deployments.dashboard") / "static"))
    login = Route("/login", _login(board), methods=["GET", "POST"])
    return Starlette(
        routes=[*routes, login, Mount("/static", static)],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_guard(board))],
        exception_handlers={404: _not_found(board)},
    )


def _endpoint(board: Board, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        form = await _form(request)
        try:
            answer = await run_in_threadpool(page, board, request, form)
        except UserError as error:
            return _sorry(board, str(error), 400)
        except duckdb.Error as error:
            return _sorry(board, f"The tables cannot be read: {error}", 500)
        return answer if isinstance(answer, Response) else HTMLResponse(answer)

    return endpoint


async def _form(request: Request) -> Form:
    if request.method != "POST":
        return {}
    if int(request.headers.get("content-length") or MOST_FORM_BYTES + 1) > MOST_FORM_BYTES:
        return {}
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()}


def _guard(board: Board) -> Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]:
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        response = _refusal(board, request) or await go_on(request)
        response.headers.update(HEADERS)
        return response

    return guard


def _refusal(board: Board, request: Request) -> Response | None:
    host = request.headers.get("host", "")
    if board.only_loopback and urlsplit(f"//{host}").hostname not in LOOPBACK:
        return Response("This dashboard answers to 127.0.0.1 and localhost only.", 421)  # DNS rebinding
    if request.method == "POST" and urlsplit(request.headers.get("origin", "")).netloc != host:
        return Response("A form of another site is not taken.", 403)
    open_to_all = request.url.path == "/login" or request.url.path.startswith("/static/")
    if board.password is None or open_to_all or request.cookies.get(COOKIE) in board.sessions:
        return None
    there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?to={quote(there, safe='')}", 303)


def _login(board: Board) -> Callable[[Request], Awaitable[Response]]:
    async def login(request: Request) -> Response:
        to = request.query_params.get("to", "/")
        to = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
        if request.method == "GET" or board.password is None:
            return HTMLResponse(render("login.html", board, to=to, wrong=False))
        given = (await _form(request)).get("password", "")
        if not hmac.compare_digest(given.encode(), board.password.encode()):
            return HTMLResponse(render("login.html", board, to=to, wrong=True), 403)
        token = secrets.token_urlsafe(32)
        board.sessions.add(token)
        response = RedirectResponse(to, 303)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response

    return login


def _not_found(board: Board) -> Any:
    async def not_found(request: Request, error: Exception) -> Response:
        return _sorry(board, f"There is no page {request.url.path}.", 404)

    return not_found


def _sorry(board: Board, message: str, status: int) -> HTMLResponse:
    return HTMLResponse(render("sorry.html", board, message=message), status)
