"""One server and one window for all tests of the pages; nothing may leave this machine."""

import psutil
import pytest
from lab_server import LabServer


@pytest.fixture(scope="module")
def lab(tmp_path_factory, warm_commands):
    server = LabServer(warm_commands, tmp_path_factory.mktemp("state"))
    yield server
    if server.process.poll() is None:
        below = server.below()
        assert server.end() == (0, "", "")
        assert not psutil.wait_procs(below, timeout=10)[1]  # Ctrl-C leaves no process behind


@pytest.fixture(scope="module")
def window(browser, lab):
    """A window with the token. It hears every request, every message and every error."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.heard, page.requests = [], []
    page.on("console", lambda message: page.heard.append(message.text))
    page.on("pageerror", lambda error: page.heard.append(str(error)))
    page.on("dialog", lambda dialog: page.heard.append(dialog.message))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(lab.address)
    yield page
    context.close()


@pytest.fixture
def open_view(window, lab):
    """Opens a view; afterwards nothing was said or asked elsewhere, and no text became markup."""
    window.heard.clear()
    window.requests.clear()

    def open_(place):
        window.goto(f"{lab.base}/{place}")
        window.wait_for_selector("html.ready")
        return window

    yield open_
    outside = [url for url in window.requests if not url.startswith((lab.base, "blob:", "data:"))]
    assert not outside
    refused = "the server responded with a status of 400"  # the page says why
    assert not [text for text in window.heard if refused not in text]
    assert window.evaluate("window.broken") is None
