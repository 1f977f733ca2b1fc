"""Ten tabs train at once: all end, memory stays bounded, and Ctrl-C leaves no process behind."""

import psutil
from lab_server import LabServer

TABS = 10
SMALL = "formula=x1+%26+x3&T=6&m=40&m2=12&steps=100&heads=2&d=8&lr=0.01"
MEMORY = 3 * 2**30
GROWTH = 200 * 2**20


def processes(server):
    above = psutil.Process(server.process.pid)
    return [above, *above.children(recursive=True)]


def memory(server):
    return sum(process.memory_info().rss for process in processes(server))


def test_ten_tabs_end_within_their_memory_and_ctrl_c_ends_everything(browser, tmp_path):
    server = LabServer(tmp_path)
    context = browser.new_context()
    outside, problems = [], []
    context.on("request", lambda request: outside.append(request.url))
    context.on("weberror", lambda error: problems.append(str(error.error)))
    tabs = [context.new_page() for _ in range(TABS)]
    tabs[0].goto(server.address)
    for k, tab in enumerate(tabs):
        tab.goto(f"{server.base}/create?{SMALL}&seed={k}")
        tab.locator("[data-action=train]").click(no_wait_after=True)
    seen = []
    for tab in tabs:
        for run in ("#run-0", "#run-1"):
            tab.wait_for_selector(f"{run} [data-outcome]", timeout=180_000)
            outcome = tab.locator(f"{run} .message").get_attribute("data-outcome")
            assert outcome in ("solved", "failed")
            assert tab.locator(f"{run} .message[data-kind=error]").count() == 0
        seen.append(memory(server))
    assert max(seen) < MEMORY and seen[-1] - seen[0] < GROWTH
    tabs[0].goto(f"{server.base}/create?formula=parity2&T=10&m=60&m2=61&steps=20000&heads=4&d=16")
    tabs[0].locator("[data-action=train]").click()
    tabs[0].wait_for_selector("#run-1 .number[aria-label=step] output[data-value]")
    below = processes(server)[1:]
    assert below
    assert server.end() == (0, "", "")
    assert not psutil.wait_procs(below, timeout=10)[1]
    context.close()
    assert not problems and not [url for url in outside if not url.startswith(server.base)]
