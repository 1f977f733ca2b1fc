"""The view Create in a real browser: by mouse, by keyboard, in five tabs, without its server."""

import json
import re
import shlex
import signal

import psutil
from lab_server import LabServer, said, until, value

SMALL = "T=10&heads=4&d=16"  # all runs of this file share one compiled program
TABS = 5  # more than train at once
MEMORY = 3 * 2**30
GROWTH = 200 * 2**20


def number(page, label):
    return value(page, label, within="#run-0")


def test_training_by_mouse_equals_the_command(open_view, lab, warm_commands):
    page = open_view(f"create?formula=x1+%5E+x4&m=100&m2=100&steps=300&lr=0.003&{SMALL}")
    with page.expect_response("**/api/runs") as started:
        page.locator("[data-action=train]").click()
    for run in ("#run-0", "#run-1"):
        page.wait_for_selector(f"{run} [data-outcome]", timeout=120_000)
    shown = shlex.split(page.locator("#run-0 code.command").inner_text())
    command = json.loads(warm_commands.capax(*shown[1:]).stdout)
    text = said(page, "#run-0")
    assert command["solved"] and f"Solved after {command['steps']} steps" in text
    assert "Proved on all inputs: the network computes parity(x1, x4)" in text
    assert page.locator("#run-0 .formula-now").inner_text() == "parity(x1, x4)"
    assert number(page, "step") == command["steps"]
    assert number(page, "validation accuracy") == command["validation_accuracy"]
    assert number(page, "loss") == command["loss"]
    mass = "attention on the relevant bits"
    assert number(page, mass) == command["attention"]
    caption = page.locator("#run-0 .strip-caption").inner_text()
    told = {name: float(text) for name, text in re.findall(r"(x\d+|CLS)\]? ([\d.]+)", caption)}
    assert told == command["attention_at"] and set(told) == {"x1", "x4", "CLS"}
    looks = page.locator("input[data-name=look-0]")
    looks.focus()
    page.keyboard.press("Home")
    evaluated = command["evaluations"]
    for k, step in enumerate(evaluated["step"]):
        until(page, lambda step=step: number(page, "step") == step)
        assert number(page, "loss") == evaluated["loss"][k]
        assert number(page, mass) == evaluated["attention_mass"][k]
        assert number(page, "validation accuracy") == evaluated["validation_accuracy"][k]
        page.keyboard.press("ArrowRight")
    assert k == int(looks.get_attribute("max")) >= 1
    events = page.request.get(f"{lab.base}/api/runs/{started.value.json()['run']}/events").text()
    told = [json.loads(line[6:]) for line in events.splitlines() if line.startswith("data: {")]
    hidden = [event["progress"] for event in told if event["kind"] == "look"]
    for name in hidden[0]:  # the measures of hidden progress, for a parity
        assert [one[name] for one in hidden] == evaluated[name]
    page.locator("#run-0-progress .plot").focus()
    page.keyboard.press("ArrowRight")
    tip = page.locator("#run-0-progress .tip").inner_text()
    assert "correlation with the rule" in tip and page.locator("#run-1-progress svg").count() == 1


def test_pause_rate_and_stop_by_keyboard(open_view):
    page = open_view(f"create?formula=parity2&m=60&m2=60&steps=20000&seed=1&lr=0.01&{SMALL}")
    page.locator("[data-action=train]").focus()
    page.keyboard.press("Enter")
    number(page, "step")
    page.locator("#run-0 [data-action=pause]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#run-0 .message:text-is('paused')")
    step = number(page, "step")
    page.keyboard.press("Enter")
    until(page, lambda: number(page, "step") > step)
    page.locator("input[type=range][data-name=lr]").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**lr=0.01012**")
    page.wait_for_selector("#run-0 p:has-text('up to the change of its learning rate')")
    for run in ("#run-0", "#run-1"):
        page.locator(f"{run} [data-action=stop]").click()
        page.wait_for_selector(f"{run} [data-outcome=stopped]", timeout=60_000)


def test_five_tabs_end_within_their_memory(window, lab):
    """One queue for all; a tab more or less changes nothing of what the others get."""
    problems, seen = [], []
    tabs = [window.context.new_page() for _ in range(TABS)]
    for k, tab in enumerate(tabs):
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("request", lambda request: window.requests.append(request.url))
        state = f"formula=x1+%26+x3&m={40 if k else 12}&steps=100&lr=0.01&{SMALL}&seed={k}"
        tab.goto(f"{lab.base}/create?{state}")
    for tab in tabs:
        tab.locator("#run-0 [data-action=restart]").dispatch_event("click")
    for tab in tabs:
        tab.bring_to_front()  # frames of hidden tabs are rare
        tab.wait_for_selector("#run-0 [data-outcome]", timeout=180_000)
        outcome = tab.locator("#run-0 .message").get_attribute("data-outcome")
        assert outcome in ("solved", "failed")
        assert tab.locator("#run-0 .message[data-kind=error]").count() == 0
        processes = [psutil.Process(lab.pid), *lab.below()]
        seen.append(sum(process.memory_info().rss for process in processes))
        tab.close()
    assert len(processes) == 2  # the server, and one that trains
    assert max(seen) < MEMORY and seen[-1] - seen[0] < GROWTH
    assert not problems and all(url.startswith(lab.base) for url in window.requests)


def test_the_page_goes_on_when_a_killed_server_returns_and_ctrl_c_leaves_nothing(open_view, lab):
    page = open_view(f"create?formula=parity2&m=60&m2=61&steps=20000&lr=0.01&{SMALL}")
    page.locator("[data-action=train]").click()
    number(page, "step")
    below = lab.below()
    lab.end(signal.SIGKILL)
    assert below and not psutil.wait_procs(below, timeout=10)[1]  # it trains for nobody
    page.wait_for_selector("#run-0 .message:has-text('does not answer')", timeout=30_000)
    again = LabServer(lab.commands, lab.home, lab.port)
    assert again.address == lab.address  # the same token: the page is known
    lab.process, lab.pid = again.process, again.pid
    page.wait_for_selector("#run-0 .message:has-text('training')", timeout=60_000)
    number(page, "step")
    assert page.locator("#run-0 .message[data-kind=error]").count() == 0
    below = lab.below()
    assert lab.end() == (0, "", "")  # Ctrl-C, while it trains
    assert below and not psutil.wait_procs(below, timeout=10)[1]
    page.goto("about:blank")  # it asks no more
    page.heard.clear()
