"""The web application: pages, answers, runs, uploads. `Guard` checks every request first."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from capax.errors import CapaxError, InputError, require
from capax.foreign import printable_parts
from capax.lab.loading import load
from capax.lab.running.training_queue import TrainingQueue
from capax.lab.static_files import static_files
from capax.lab.views.addresses import VIEWS, state_of
from capax.plain_json import json_text

MAX_QUESTION = 64 * 1024
MAX_UPLOAD = 64 * 2**20
BUSY = 16
"""Most questions in work or waiting; further ones are refused."""
POLL = 0.05  # seconds between two checks for new events of a run
FEW = 3
"""Streams that stay open. A browser opens six connections to a server for all its tabs together.
If more streams are open, each ends after `TURN` seconds and its page connects again."""
TURN = 1.0
MOMENT = 0.25  # seconds within which a page requests its next file


class Lab:
    """The routes and their shared state: the queue of runs and the number of open questions."""

    def __init__(self, queue: TrainingQueue) -> None:
        self._queue, self._open, self._streams, self.closing = queue, 0, 0, False
        self._sent = time.monotonic()

    @property
    def is_quiet(self) -> bool:
        """Whether no file of a page was sent in the last moment."""
        return time.monotonic() > self._sent + MOMENT

    def application(self) -> Starlette:
        """The application without its guard."""
        pages = [Route(f"/{view}", self._page) for view in VIEWS]
        return Starlette(
            routes=[
                Route("/", self._home),
                *pages,
                Route("/static/{name}", self._static),
                Route("/api/ask/{name}", self._ask, methods=["POST"]),
                Route("/api/weights", self._weights),
                Route("/api/freeze", self._freeze, methods=["POST"]),
                Route("/api/upload/{kind}", self._upload, methods=["POST"]),
                Route("/api/runs", self._start, methods=["POST"]),
                Route("/api/runs/{run}", self._known),
                Route("/api/runs/{run}", self._steer, methods=["POST"]),
                Route("/api/runs/{run}/events", self._events),
            ],
            exception_handlers={CapaxError: _refused, Exception: _broken},
        )

    async def _home(self, request: Request) -> Response:
        del request
        return RedirectResponse(f"/{VIEWS[0]}")

    async def _page(self, request: Request) -> Response:
        del request
        self._sent = time.monotonic()
        media, text = static_files()["lab.html"]
        return Response(text, media_type=media)

    async def _static(self, request: Request) -> Response:
        self._sent = time.monotonic()
        found = static_files().get(request.path_params["name"])
        if found is None:
            return Response("no such file\n", 404, media_type="text/plain")
        return Response(found[1], media_type=found[0])

    async def _ask(self, request: Request) -> Response:
        fields = await _fields(request)
        return _json(await self._work(_answered, request.path_params["name"], fields))

    async def _weights(self, request: Request) -> Response:
        content = await self._work(_weights_of, dict(request.query_params))
        return _download(content, "head.safetensors", "application/octet-stream")

    async def _freeze(self, request: Request) -> Response:
        fields = await _fields(request)
        view, state = state_of(str(fields.get("address", "")))
        runs = [self._queue.recorded(str(run)) for run in fields.get("runs", [])[:2]]
        page = await self._work(_frozen, view, state, runs)
        return _download(page.encode(), f"capax-{view}.html", "text/html; charset=utf-8")

    async def _upload(self, request: Request) -> Response:
        content = await _body(request, MAX_UPLOAD)
        name = request.headers.get("x-file-name", "file")[:200]
        return _json(await self._work(_uploaded, request.path_params["kind"], content, name))

    async def _start(self, request: Request) -> Response:
        return _json({"run": await self._work(self._started, await _fields(request))})

    def _started(self, fields: dict[str, Any]) -> str:
        load("runs")
        from capax.lab.views.create_view import RunQuestion

        return self._queue.start(RunQuestion(**fields))

    async def _known(self, request: Request) -> Response:
        known = self._queue.events(request.path_params["run"]) is not None
        return Response("", 200 if known else 404)

    async def _steer(self, request: Request) -> Response:
        fields = await _fields(request)
        self._queue.steer(request.path_params["run"], fields)
        return _json({})

    async def _events(self, request: Request) -> Response:
        run = request.path_params["run"]
        known = self._queue.events(run)
        if known is None:
            return Response("no such run\n", 404, media_type="text/plain")
        last = request.headers.get("last-event-id", "")
        first = int(last) + 1 if last.isdecimal() and len(last) < 10 else 0
        return StreamingResponse(self._stream(run, first), media_type="text/event-stream")

    async def _stream(self, run: str, at: int) -> AsyncIterator[str]:
        """Server-sent events from number `at` on, until the run ends or other streams wait."""
        loop = asyncio.get_running_loop()
        began = told = loop.time()
        self._streams += 1
        try:
            yield "retry: 300\n\n"
            while not self.closing:
                for event in (self._queue.events(run) or [])[at:]:
                    yield f"id: {at}\ndata: {_text(event)}\n\n"
                    at, told = at + 1, loop.time()
                    if event["kind"] == "ended":
                        return
                if self._streams > FEW and loop.time() > began + TURN:
                    yield "event: turn\ndata:\n\n"
                    return
                await asyncio.sleep(POLL)
                if loop.time() > told + 10:  # keeps the connection alive and detects a closed page
                    told = loop.time()
                    yield ": waiting\n\n"
        finally:
            self._streams -= 1

    async def _work(self, function: Any, *arguments: Any) -> Any:
        """`function` in a thread; too many at once are refused."""
        if self._open >= BUSY:
            raise InputError(
                f"lab: the server is busy with {BUSY} questions; try again in a moment"
            )
        self._open += 1
        try:
            return await run_in_threadpool(function, *arguments)
        finally:
            self._open -= 1


def _answered(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    load(name)
    from capax.lab.views.questions import answer

    return answer(name, fields)


def _weights_of(fields: dict[str, Any]) -> bytes:
    load("weights")
    from capax.lab.views.compile_view import HeadQuestion, weights_file

    return weights_file(HeadQuestion(**fields))


def _frozen(view: str, state: dict[str, str], runs: list[dict[str, Any]]) -> str:
    load("freeze")
    from capax.lab.frozen_page import frozen_page

    return frozen_page(view, state, runs)


def _uploaded(kind: str, content: bytes, name: str) -> dict[str, Any]:
    load("upload")
    from capax.lab.uploads import read_upload

    return read_upload(kind, content, name)


async def _body(request: Request, most: int) -> bytes:
    """The content of a request of at most `most` bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        require(size <= most, "request", f"at most {most / 2**20:.3g} MiB", "more")
        parts.append(part)
    return b"".join(parts)


async def _fields(request: Request) -> dict[str, Any]:
    from capax.reading import parse_json

    try:
        text = (await _body(request, MAX_QUESTION)).decode()
    except UnicodeDecodeError:
        raise InputError("request: not valid JSON in UTF-8") from None
    fields = parse_json(text, "request")
    require(isinstance(fields, dict), "request", "a JSON object", fields)
    return fields


def _text(payload: Any) -> str:
    return json.dumps(printable_parts(json.loads(json_text(payload))), allow_nan=False)


def _json(payload: Any, status: int = 200) -> Response:
    return Response(_text(payload), status, media_type="application/json")


def _download(content: bytes, name: str, media: str) -> Response:
    header = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media, headers=header)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    return _json({"error": str(error)}, 400)


async def _broken(request: Request, error: Exception) -> Response:
    del request
    text = " ".join(str(error).split())[:120]
    said = f"an error in Capax, not in your input ({type(error).__name__}: {text})"
    return _json({"error": said}, 500)
