"""Who the server answers: its own pages with its token, and nobody else."""

import ast
import subprocess
import sys
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import pytest

from capax.lab.guard import Guard

TOKEN = "t" * 32
COOKIE = f"capax-lab-8000={TOKEN}"


async def application(scope, receive, send):
    del scope, receive
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"public")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"inside"})


def asked(path="/compile", query="", method="GET", **headers):
    """Status, headers and text of one request."""
    fields = {"host": "127.0.0.1:8000", **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in fields.items() if v is not None],
    }
    sent = []

    async def send(message):
        sent.append(message)

    guard = Guard(application, port=8000, token=TOKEN)
    with suppress(StopIteration):  # nothing in it waits, so no loop is needed
        guard(scope, None, send).send(None)
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"].decode()


def test_a_page_with_the_cookie_is_answered_under_the_policy():
    status, headers, text = asked(cookie=f"other=1; {COOKIE}")
    assert (status, text) == (200, "inside")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8000"},  # a name that was bound to 127.0.0.1
        {"host": "127.0.0.1:8001"},
        {"host": "127.0.0.1"},
        {"host": None},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8001"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"},
        {"cookie": None},
        {"cookie": "capax-lab-8000=wrong"},
        {"cookie": f"capax-lab-8001={TOKEN}"},
        {"cookie": ";;;=\x01"},
    ],
    ids=str,
)
def test_everybody_else_is_refused(headers):
    status, _, text = asked(**{"cookie": COOKIE, **headers})
    assert status == 403 and "inside" not in text


def test_a_link_from_another_page_opens_a_view_but_changes_nothing():
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "cookie": COOKIE}
    assert asked(**link)[0] == 200
    assert asked(path="/api/weights", **link)[0] == 403
    assert asked(method="POST", **link)[0] == 403
    assert asked(method="POST", cookie=COOKIE)[0] == 403  # without an origin
    assert asked(method="POST", cookie=COOKIE, origin="http://127.0.0.1:8000")[0] == 200


def test_the_address_with_the_token_sets_the_cookie_once():
    status, headers, _ = asked(query=f"T=5&token={TOKEN}&formula=x1+%26+x2")
    assert status == 303
    assert headers["location"] == "/compile?T=5&formula=x1+%26+x2"
    assert headers["set-cookie"] == f"{COOKIE}; HttpOnly; SameSite=Lax; Path=/"
    assert asked(query="token=wrong")[0] == 403
    assert asked(query=f"token={TOKEN}", host="evil.example:8000")[0] == 403


def test_the_redirect_stays_on_this_server():
    assert (
        asked(path="//evil.example/x", query=f"token={TOKEN}")[1]["location"] == "/evil.example/x"
    )


def test_everything_that_the_pages_load_late_is_loaded_under_the_lock():
    """Two threads that load a package and its module at once may see a half of it."""
    package = Path(str(files("capax") / "lab"))
    paths = [*package.glob("views/*.py"), package / "uploads.py", package / "frozen_page.py"]
    late = {
        node.module
        for path in paths
        for outer in ast.walk(ast.parse(path.read_text()))
        if isinstance(outer, ast.FunctionDef)
        for node in ast.walk(outer)
        if isinstance(node, ast.ImportFrom)
    }
    program = f"""
import sys
import capax.lab.app
from capax.lab.loading import load_meanwhile
load_meanwhile(lambda: True)
print([name for name in {sorted(late)} if name not in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert len(late) > 10 and done.stdout == "[]\n", done.stdout + done.stderr
