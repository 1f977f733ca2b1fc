"""Pages in one file, and the same views in a notebook: in a real browser, without any server."""

import json
import re

import pytest

import capax
import capax.lab
from capax.errors import InputError
from capax.figures.style import DARK, LIGHT
from capax.lab.frozen_page import frozen_page
from capax.lab.static_files import one_script, static_files
from capax.lab.views.addresses import VIEWS, state_of
from capax.lab.views.questions import QUESTIONS
from capax.report.vector import css_variables
from typed_command import typed

HOSTILE = "</script><img src=x onerror=window.broken=1>"


def number(page, label, kind="computed"):
    box = page.locator(f".number[aria-label='{label}'] output[data-kind={kind}]")
    box.wait_for()
    return float(box.get_attribute("data-value"))


@pytest.fixture(scope="module")
def recorded():
    """Events as a training process tells them."""
    look = {"kind": "look", "loss": 0.5, "train_accuracy": 0.7, "validation_accuracy": 0.75,
            "validation_rows": 512, "mass": 0.3, "attention": [0.1, 0.2, 0.3, 0.4],
            "formula": "x1", "agreement": 0.8}  # fmt: skip
    proof = {"status": "refuted", "counterexample": [0, 2]}
    end = {"kind": "ended", "outcome": "failed", "steps": 20, "validation_accuracy": 0.75,
           "formula": "x1", "all_inputs": proof}  # fmt: skip
    started = {"kind": "started", "support": [1], "command": HOSTILE, "p": 0.5}
    events = [started, {**look, "step": 10}, {**look, "step": 20, "loss": 0.25}, end]
    return [{"question": {"formula": "x1", "T": 3, "m": 9}, "events": events}] * 2


def test_compile_works_from_the_disk(open_file, tmp_path):
    path = tmp_path / "head.html"
    done = typed("lab", "compile?formula=x2+%26+x5&T=30&on=2", "--freeze", path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["state"] == {"formula": "x2 & x5", "T": "30", "on": "2"}
    page = open_file(path)
    margin = capax.compile("x2 & x5", T=30).certificate.margin
    assert number(page, "margin") == margin
    assert page.locator("button.bit").first.inner_text() == "1"
    page.locator("button.bit").nth(1).click()
    page.wait_for_selector(".gauge-frame p:has-text('decides 1')")
    temperature = page.locator("input[type=range][data-name=temperature]")
    temperature.focus()
    page.keyboard.press("PageUp")
    assert number(page, "margin", "drawn") < margin
    page.wait_for_selector(".message:has-text('frozen')")
    page.locator("[data-action=break]").click()
    page.wait_for_selector(".message[data-kind=error]")


def test_laws_and_bounds_work_from_the_disk(open_file, tmp_path):
    for view in ("laws", "bounds"):
        path = tmp_path / f"{view}.html"
        path.write_text(frozen_page(view, {}, []))
        page = open_file(path)
        page.wait_for_selector(f"#{view}-chart svg")
    page.locator("input[type=range][data-name=m]").focus()
    before = number(page, "error at most")
    page.keyboard.press("PageUp")
    assert number(page, "error at most", "drawn") < before


def test_recorded_runs_are_replayed_and_their_texts_stay_texts(open_file, tmp_path, recorded):
    path = tmp_path / "create.html"
    path.write_text(frozen_page("create", {"formula": HOSTILE}, recorded))
    page = open_file(path, 390, 844)
    page.wait_for_selector("#run-1 [data-outcome=failed]")
    assert "ones at 0,2." in page.locator("#run-0 .message").inner_text()
    assert page.locator("#run-0 .number output").nth(1).get_attribute("data-value") == "0.25"
    assert f"Recorded runs of {HOSTILE}, T = 50" in page.locator("main .message").first.inner_text()
    assert page.locator(".controls-panel").locator("input, button").count() == 0
    assert page.locator("img").count() == 0 and page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_only_the_one_script_of_the_page_may_run():
    page = frozen_page("bounds", {}, [])
    assert page.count("<script") == 2 and "unsafe" not in page
    assert "default-src 'none'; script-src 'sha256-" in page


def test_every_module_is_in_the_one_script_and_colours_are_those_of_the_reports():
    script = one_script("frozen.js")
    assert script.count("const m_charts =") == 1 and "export " not in script
    style = static_files()["lab.css"][1]
    for line in css_variables().splitlines():
        assert line.strip() in style
    assert LIGHT.series != DARK.series


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_and_its_question_have_the_same_defaults(view):
    """An address leaves out what is the default: page and server must mean the same by it."""
    text = re.search(r"^const DEFAULTS = ({.*});$", static_files()[f"{view}.js"][1], re.MULTILINE)
    page = json.loads(re.sub(r"(\w+): ", r'"\1": ', text[1]))
    question = {name: field.default for name, field in QUESTIONS[view].model_fields.items()}
    assert {name: page[name] for name in question} == question


@pytest.mark.parametrize(
    "address",
    [
        "nothing",
        "compile?T=x",
        "http://[",
        "bounds?delta=2",
        "compile?" + "a=1&" * 200,
        "x" * 20_000,
    ],
    ids=lambda text: text[:20],
)
def test_addresses_that_lead_nowhere(address, tmp_path):
    done = typed("lab", address, "--freeze", tmp_path / "x.html")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_address_of_the_browser_is_a_state():
    view, state = state_of("http://127.0.0.1:8000/bounds?T=5&token=secret")
    assert (view, state) == ("bounds", {"T": "5"})


# ---- Widgets


@pytest.fixture
def in_notebook(browser, tmp_path):
    """A page that renders a widget as a notebook does; its kernel is this process."""
    context = browser.new_context()
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))

    def show(widget):
        sent = []
        widget.send = sent.append

        def ask(text):
            sent.clear()
            widget._asked(widget, json.loads(text), [])
            return json.dumps(sent)

        page.expose_function("kernel", ask)
        start = """
            const heard = [], data = JSON.parse(document.getElementById("traits").textContent);
            const model = { get: (name) => data[name], set: (name, value) => (data[name] = value),
              save_changes() {}, on: (name, hear) => heard.push(hear),
              send: async (message) => JSON.parse(await window.kernel(JSON.stringify(message)))
                .forEach((reply) => heard.forEach((hear) => hear(reply))) };
            lab.render({ model, el: document.getElementById("cell") });"""
        script = widget._esm.replace("export default { render: lab.render };", start)
        traits = {name: getattr(widget, name) for name in ("view", "state", "css")}
        path = tmp_path / "notebook.html"
        path.write_text(
            '<!doctype html><meta charset="utf-8"><p>text</p><div id="cell"></div>'
            f'<script type="application/json" id="traits">{json.dumps(traits)}</script>'
            f'<script type="module">{script}</script>'
        )
        page.goto(path.as_uri())
        return page

    yield show
    context.close()
    assert not problems


def test_a_head_in_a_notebook(in_notebook):
    widget = capax.lab.head("x1 & x3", T=8)
    page = in_notebook(widget)
    assert number(page, "margin") == capax.compile("x1 & x3", T=8).certificate.margin
    assert page.evaluate("getComputedStyle(document.querySelector('p')).fontSize") == "16px"
    page.locator("input[data-name=formula]").fill("x1 &")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message[data-kind=error]:has-text('formula')")


def test_widgets_say_at_once_what_is_wrong():
    with pytest.raises(InputError, match="T: "):
        capax.lab.head("x1", T=0)
    with pytest.raises(InputError, match="delta: "):
        capax.lab.bounds(delta=2)
    assert capax.lab.laws("maj5").view == "laws" and capax.lab.create(m=50).state["m"] == "50"
    with pytest.raises(AttributeError):
        capax.lab.nothing  # noqa: B018
