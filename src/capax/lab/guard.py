"""Access to the server: only this browser, with its token, from the server's own pages.

A page of another site can make a browser send requests to 127.0.0.1, and with a domain name that
resolves to 127.0.0.1 it could read the answers. So every request must name this host and port in
its Host header, come from the server's own pages (Origin, Sec-Fetch-Site), and have the token that
was printed at the start in a cookie. The address with the token sets the cookie once. Answers may
load scripts, styles and data only from this server, run no inline script, and cannot be framed.
"""

import hmac
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
NO_TOKEN = "Open the address that capax lab printed: it contains the token of this server.\n"


class Guard:
    """The application with checks before every request."""

    def __init__(self, application: Application, *, port: int, token: str) -> None:
        self._application, self._token = application, token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._cookie = f"capax-lab-{port}"  # cookies of a host are shared by its ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        problem = self._foreign(scope, headers)
        given = [text for name, text in _query(scope) if name == "token"]
        if problem:
            await _plain(send, 403, problem)
        elif given and self._is_token(given[-1]):
            await self._admit(scope, send)
        elif self._is_token(_cookie(headers.get("cookie", ""), self._cookie)):
            await self._application(scope, receive, _guarded(send))
        else:
            await _plain(send, 403, NO_TOKEN)

    def _foreign(self, scope: Scope, headers: dict[str, str]) -> str:
        """The reason to refuse the request, whatever its token; empty if it may pass."""
        if headers.get("host", "") not in self._hosts:
            return "The Host header must be the address of this server.\n"
        if headers.get("origin") not in (None, *self._origins):
            return "Requests of other sites are refused.\n"
        reads = scope["method"] in ("GET", "HEAD")
        if not reads and headers.get("origin") is None:
            return "A request that changes something needs an Origin header.\n"
        link = headers.get("sec-fetch-mode") == "navigate"
        page = reads and link and not scope["path"].startswith("/api/")
        site = headers.get("sec-fetch-site")
        if not page and site not in (None, "same-origin", "none"):
            return "Requests of other sites are refused.\n"
        return ""

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    async def _admit(self, scope: Scope, send: Send) -> None:
        """Set the cookie and redirect to the same address without the token."""
        rest = urlencode([(name, text) for name, text in _query(scope) if name != "token"])
        place = scope["raw_path"].decode("latin-1").split("?")[0]
        place = "/" + place.lstrip("/")  # `//name` would be another host
        cookie = f"{self._cookie}={self._token}; HttpOnly; SameSite=Lax; Path=/"
        more = {"location": f"{place}?{rest}" if rest else place, "set-cookie": cookie}
        await _plain(send, 303, "", more)


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def _plain(send: Send, status: int, text: str, more: dict[str, str] | None = None) -> None:
    fields = {**HEADERS, "content-type": "text/plain; charset=utf-8", **(more or {})}
    headers = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


def _guarded(send: Send) -> Send:
    """`send` with the headers of every answer."""

    async def sending(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            names = {name for name, _ in own}
            kept = [pair for pair in message["headers"] if pair[0].lower() not in names]
            message = {**message, "headers": [*kept, *own]}
        await send(message)

    return sending
