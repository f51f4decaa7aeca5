"""Who may talk to the page: only whoever knows its address.

The address begins with a random token, as the first part of its path. So every request carries it, the page's own by
being relative, and no cookie does: cookies are shared between all servers of a machine, whatever their port.
"""

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
"""A page elsewhere may have its own name resolve to this machine; its requests still bear that name."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Guard:
    """Lets requests with the token through, without it; all answers get headers that keep the page to itself."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._answer(scope)(scope, receive, send_guarded)

    def _answer(self, scope: Scope) -> ASGIApp:
        host = Headers(scope=scope).get("host", "")
        if not _is_here(host):
            return PlainTextResponse("expected a request to 127.0.0.1, found one to another host\n", 421)
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        if not hmac.compare_digest(first.encode(errors="replace"), self._token):
            return PlainTextResponse("expected the whole address that `tag2box review` has printed\n", 403)
        if not slash:
            return RedirectResponse(f"/{first}/")
        scope["path"] = f"/{rest}"
        scope["raw_path"] = scope["path"].encode(errors="replace")
        return self._app


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine; the port may be another, of a tunnel."""
    try:
        return urlsplit(f"//{host}").hostname in HOSTS
    except ValueError:
        return False
