"""The pages of the lab in a real browser: by mouse, by keyboard, under attack, without a server."""

import json
import shlex
from urllib.parse import quote

import pytest
from lab_server import said, until, value

import capax
from typed_command import typed

HOSTILE = "<img src=x onerror=window.broken=1>"
COMPUTED = ".number [data-kind=computed]"


def printed(page):
    """What the command that the page shows prints as JSON."""
    done = typed(*shlex.split(page.locator("code.command").first.inner_text())[1:])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- Compile


def test_compile_shows_the_numbers_of_the_command(open_view):
    page = open_view("compile?formula=x2+%26+x3&T=9")
    shown = {name: value(page, name) for name in ("margin", "worst-case error", "‖W_QK‖_F")}
    command = printed(page)
    norms = command["norms"]
    assert shown["margin"] == command["margin"]
    assert shown["worst-case error"] == command["worst_case_error"]
    assert shown["‖W_QK‖_F"] == norms["W_QK"]["frobenius"]
    cells = page.locator("section.result td span[data-kind=computed]").all()
    numbers = [float(cell.get_attribute("data-value")) for cell in cells]
    wanted = [row[k] for row in norms.values() for k in ("frobenius", "spectral", "norm_2_1")]
    assert numbers == [*wanted, *command["sample_size"].values()]
    assert value(page, "MLP units") == command["mlp_units"]
    assert value(page, "wrong decisions") == command["wrong_decisions"] == 0
    everything = page.locator("main [data-kind=computed][data-value]").count()
    assert everything == len(numbers) + 5  # no computed number that was not compared


def test_compile_by_mouse_draws_while_dragging_and_proves_afterwards(open_view, window):
    window.goto("about:blank")
    with window.expect_response("**/api/ask/ladder"):
        page = open_view("compile?T=20")
        value(page, "margin")
    handle = page.locator("input[type=range][data-name=T]")
    box = handle.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.16, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2, steps=4)
    drawn = value(page, "margin", kind="drawn")
    assert page.locator(f"main {COMPUTED}[data-value='{drawn}']").count() == 0
    page.mouse.up()
    T = int(page.locator("input[data-field=T]").input_value())
    assert T > 20
    until(page, lambda: f"T={T}" in page.url)
    proved = value(page, "margin")
    assert proved == capax.compile("maj(x1, x5, x9)", T=T).certificate.margin
    assert drawn == pytest.approx(proved, rel=0.05)
    assert "Worst input as drawn: x" in page.locator(".worst").inner_text()
    page.locator("button.bit").nth(1).click()
    page.locator(".strip-view").click(position={"x": 2, "y": 20})
    until(page, lambda: "on=0%2C5" in page.url)


def test_compile_by_keyboard_alone(open_view):
    page = open_view("compile?T=12")
    value(page, "margin")
    page.locator("input[data-name=formula]").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("x1 ^ x4")
    page.keyboard.press("Enter")
    page.wait_for_url("**formula=x1+**")
    page.wait_for_selector("section.result code:has-text('x1 ^ x4')")
    assert value(page, "MLP units") == 4
    page.locator(".strip-view").focus()
    for key in ("r", "Space", "r", "Space", "End", "Space"):
        page.keyboard.press(key)
    until(page, lambda: "on=1%2C4%2C11" in page.url)
    assert "x11: bit 1, irrelevant" in page.locator(".strip-caption").first.inner_text()
    page.locator("input[type=range][data-name=temperature]").focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    until(page, lambda: "temperature=" in page.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.field") == "temperature"


def test_a_link_reproduces_the_view_and_break_it_shows_the_failing_input(open_view):
    page = open_view("compile?T=30&temperature=4&on=1-3")
    assert value(page, "margin") < 0
    assert page.locator("button.bit").first.inner_text() == "1"
    assert "Not proved right" in said(page)
    page.locator("[data-action=break]").click()
    page.wait_for_selector(".message:has-text('Counterexample')")
    assert "(wrong)" in page.locator(".gauge-frame p").inner_text()
    page.locator("[data-action=download]").click()
    page.wait_for_selector(".message:has-text('not proved right')")


def test_the_download_is_what_verify_accepts(open_view, tmp_path):
    page = open_view("compile?T=11&weight=W_V%5Bx5%5D&value=1.02")
    margin = value(page, "margin")
    with page.expect_download() as download:
        page.locator("[data-action=download]").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    done = typed("verify", path, "--json")
    assert done.returncode == 0
    claims = {claim["name"]: claim["claimed"] for claim in json.loads(done.stdout)["claims"]}
    assert claims["margin"] == margin < capax.compile("maj(x1,x5,x9)", T=11).certificate.margin


def test_numbers_that_make_no_sense_are_mended_and_an_old_answer_is_no_certificate(open_view):
    page = open_view("compile?T=50")
    value(page, "margin")
    for typed_in, wanted in (("-5", "10"), ("1e12", "100000"), ("", "100000"), ("12.4", "12")):
        page.locator("input[data-field=T]").fill(typed_in)
        page.keyboard.press("Tab")
        until(page, lambda wanted=wanted: page.url.endswith(f"T={wanted}"))
        assert page.locator("input[data-field=T]").input_value() == wanted  # x9 needs T = 10
    value(page, "margin")
    page.locator("input[data-name=formula]").fill("x1 && x2")
    page.keyboard.press("Enter")
    page.wait_for_selector(".message[data-kind=error]:has-text('formula: ')")
    assert page.locator(f"main {COMPUTED}").count() == 0
    assert "still belong to maj(x1, x5, x9), T = 12." in said(page)
    assert "Right on all" not in said(page)


def test_an_answer_does_not_replace_what_is_being_typed(open_view, request):
    page = open_view("compile?T=50")
    value(page, "margin")
    held = []
    request.addfinalizer(page.unroute_all)
    page.route("**/api/ask/compile", lambda route: held.append(route))
    page.locator("input[data-field=T]").fill("40")
    page.keyboard.press("Enter")
    until(page, lambda: held)
    for field, text in (("input[data-field=T]", "31"), ("input[data-name=formula]", "x1 & x")):
        page.locator(field).fill(text)
        held.pop().continue_()
        until(page, lambda: "computing" not in said(page))
        assert page.locator(field).input_value() == text
        if text == "31":
            page.keyboard.press("Enter")
            until(page, lambda: held)
    assert page.locator("input[data-field=T]").input_value() == "31"
    page.locator("input[data-name=formula]").fill("x1 & x2")
    page.keyboard.press("Enter")
    until(page, lambda: held)
    at = page.locator("input[data-name=T]").bounding_box()
    page.mouse.move(at["x"] + 0.7 * at["width"], at["y"] + at["height"] / 2)
    page.mouse.down()
    dragged = page.locator("input[data-field=T]").input_value()
    held.pop().continue_()
    until(page, lambda: "computing" not in said(page))
    assert dragged != "31" and page.locator("input[data-field=T]").input_value() == dragged
    page.mouse.up()


@pytest.mark.parametrize("view", ["compile", "create"])
def test_hostile_formulas_are_text(open_view, view):
    page = open_view(f"{view}?formula={quote(HOSTILE)}&T=20&weight={quote(HOSTILE)}")
    if view == "create":
        page.locator("[data-action=train]").click()
    page.wait_for_selector("main .message[data-kind=error]")
    assert page.locator("img").count() == 0
    assert page.locator("input[data-name=formula]").input_value() == HOSTILE


def test_hostile_addresses(open_view, window, lab):
    for place in ("compile?T=1e99&on=5-,,-3,99999999", "laws?target=__proto__&zoom=1,2,x&axes=<b>",
                  "bounds?W_QK=-1&m=nan&delta=2"):  # fmt: skip
        page = open_view(place)
        assert page.locator("h1").inner_text() == "Capax lab"
        assert page.locator("main b").count() == 0
    for place in ("static/..%2f..%2fapp.py", "static/__init__.py", "%2e%2e/etc/passwd", "nothing"):
        assert window.request.get(f"{lab.base}/{place}").status == 404
    window.heard.clear()


# ---- Laws


ROWS = """(place) => [...document.querySelectorAll(`${place} tbody tr`)].map((row) =>
    [...row.cells].map((cell) => cell.querySelector("span")?.dataset.value ?? cell.textContent))"""


def number_or_none(text):
    return float(text) if text else None


def test_laws_show_the_numbers_of_the_commands(open_view, window):
    with window.expect_response("**/api/ask/laws") as answered:
        page = open_view("laws")
    page.wait_for_selector("#laws-chart .mark circle")
    page.locator("details summary").click()
    card, published = (
        json.loads(typed(*shlex.split(text)[1:]).stdout)
        for text in page.locator("code.command").all_inner_texts()
    )
    rows = [r for r in card["rows"] if (r["target"], r["accuracy"]) == ("and3", 1.0)]
    shown = page.evaluate(ROWS, "details")
    assert len(rows) == len(shown) > 50
    for (learner, T, m_star, interval, floor), row in zip(shown, rows, strict=True):
        assert (learner, int(T)) == (row["learner"], row["T"])
        assert number_or_none(m_star) == row["m_star"] and number_or_none(floor) == row["floor"]
        note = card["notes"].get(f"{learner}|and3|{T}|1", "")
        whole = row["low"] is not None and row["high"] is not None
        assert interval == (f"{row['low']} – {row['high']}" if whole else note)
    laws = [w for w in card["laws"] if (w["target"], w["accuracy"]) == ("and3", 1.0)]
    shown = page.evaluate(ROWS, "section.result > .scroll > table")
    assert [[w["learner"], w["law"] or "not settled", w["p_value"], ", ".join(w["ruled_out"])]
            for w in laws] == [[a, b, number_or_none(p), d] for a, b, p, d in shown]  # fmt: skip
    assert answered.value.json()["published"] == published["figure2"]
    before = page.locator("#laws-chart .mark").count()
    page.locator(".key:has-text('gru')").click()
    assert page.locator("#laws-chart .mark").count() > before
    until(page, lambda: "hidden=" in page.url and "gru" not in page.url)
    page.locator("select[data-name=target]").select_option("maj5")
    page.wait_for_selector("#laws-chart svg[aria-label*=maj5]")
    assert "target=maj5" in page.url


def test_laws_by_keyboard_zoom_and_link(open_view):
    page = open_view("laws")
    plot = page.locator("#laws-chart .plot")
    plot.wait_for()
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert "T = 20" in page.locator("#laws-chart .tip").inner_text()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + 80, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200, steps=3)
    page.mouse.up()
    page.wait_for_url("**zoom=**")
    link = page.url.partition("/laws")[2]
    ticks = page.locator("#laws-chart .axes").text_content()
    page = open_view(f"laws{link}")
    page.wait_for_selector("#laws-chart .axes")
    assert page.locator("#laws-chart .axes").text_content() == ticks


def test_laws_read_a_card_and_refuse_other_files(open_view):
    page = open_view("laws")
    page.wait_for_selector("#laws-chart .mark")
    row = {"learner": HOSTILE, "target": "and3", "T": 50, "accuracy": 1.0, "m_star": 77, "low": 70,
           "high": 90, "floor": 20, "solved_share": 1.0, "rate": None, "seconds": 1.0}  # fmt: skip
    card = {"rows": [], "laws": [], "curves": [], "notes": {}, "learners": {}, "targets": {},
            "protocol": {}}  # fmt: skip
    upload = page.locator("input[type=file]")
    good = json.dumps({**card, "rows": [row]}).encode()
    upload.set_input_files({"name": HOSTILE, "mimeType": "x/y", "buffer": good})
    page.wait_for_selector(".key:has-text('onerror')")
    assert page.locator("img").count() == 0
    wrong = json.dumps({**card, "rows": [{**row, "T": "<b>"}]}).encode()
    bad = {"text": b"[" * 100_000, "rows": wrong,
           "bytes": b"\xff\xfe", "sqlite": b"SQLite format 3\x00" + b"\x01" * 4096}  # fmt: skip
    for name, content in bad.items():
        upload.set_input_files({"name": name, "mimeType": "x/y", "buffer": content})
        page.wait_for_selector(f".message[data-kind=error]:has-text('{name}')")
        page.evaluate("document.querySelector('.message').dataset.kind = ''")


# ---- Bounds


def test_bounds_show_the_numbers_of_the_command(open_view):
    page = open_view("bounds?T=500&margin=0.25")
    shown = value(page, "error at most")
    command = printed(page)
    assert shown == command["value"]
    assert value(page, "m for the wanted error") == command["m_needed"]
    compared = command["log_cover_compared"]
    assert value(page, "log10 of ln N, our constants") == compared["log10_ours"]
    paper = value(page, "log10 of ln N, the paper's constants")
    assert paper == compared["log10_paper"]
    useful = typed("bound", "--norms", "W_QK=2,v=1", "-T", 500, "--margin", 0.25, "--target", 0.999,
                   "-m", 100000, "--json")  # fmt: skip
    routes = zip(command["portfolio"], json.loads(useful.stdout)["portfolio"], strict=True)
    wanted = [[a["value"], a["m_needed"], b["m_needed"]] for a, b in routes]
    cells = page.locator("section.result td span[data-kind=computed]").all()
    numbers = [float(cell.get_attribute("data-value")) for cell in cells]
    assert numbers == [number for row in wanted for number in row]
    everything = page.locator("main [data-kind=computed][data-value]").count()
    assert everything == len(numbers) + 4  # no computed number that was not compared


def test_bounds_by_mouse_and_by_keyboard(open_view):
    page = open_view("bounds")
    first = value(page, "error at most")
    slider = page.locator("input[type=range][data-name=m]")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.364, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2, steps=3)
    assert value(page, "error at most", kind="drawn") < first
    page.mouse.up()
    m = int(page.locator("input[data-field=m]").input_value())
    found = capax.bound("W_QK=2.0,v=1.0", T=1000, m=m, margin=0.5)
    assert value(page, "error at most") == found.best.value
    page.locator("input[type=range][data-name=W_QK]").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**W_QK=**")
    assert value(page, "error at most") > found.best.value


def test_bounds_take_the_norms_of_an_audit(open_view):
    page = open_view("bounds")
    value(page, "error at most")
    rows = [{"layer": 3, "head": 1, "W_QK_F": 4.5}, {"layer": HOSTILE, "head": 2, "W_QK_F": 1.5},
            {"layer": 0, "head": 0, "W_QK_F": "evil"}]  # fmt: skip
    audit = json.dumps({"rows": rows}).encode()
    page.locator("input[type=file]").set_input_files(
        {"name": "audit.json", "mimeType": "x/y", "buffer": audit}
    )
    page.locator("select[data-name=head]").select_option("4.5")
    page.wait_for_url("**W_QK=4.5**")
    assert page.locator("img").count() == 0


# ---- All pages


@pytest.mark.parametrize("view", ["compile", "create", "laws", "bounds"])
def test_every_control_has_a_name_and_nothing_overflows_on_a_phone(open_view, view):
    page = open_view(view)
    page.set_viewport_size({"width": 390, "height": 844})
    try:
        named = "e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent"
        every = "[...document.querySelectorAll('button, input, select, a, canvas[role]')]"
        nameless = f"{every}.filter((e) => !({named})).map((e) => e.outerHTML)"
        assert page.evaluate(nameless) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("nav a[aria-current=page]").count() == 1
        assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
    finally:
        page.set_viewport_size({"width": 1100, "height": 900})


PLACES = """() => [...document.querySelectorAll("main section > *, main .number, main th, h2, svg")]
    .map((e) => [e.outerHTML.slice(0, 60), ...Object.values(e.getBoundingClientRect().toJSON())])"""


@pytest.mark.parametrize(("view", "name"), [("compile?T=120", "T"), ("bounds", "m")])
def test_nothing_moves_while_numbers_change(open_view, view, name):
    page = open_view(view)
    page.wait_for_selector(COMPUTED)
    box = page.locator(f"input[type=range][data-name={name}]").bounding_box()
    places = [page.evaluate(PLACES)]
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
    page.mouse.down()
    for share in (0.4, 0.6, 0.8, 0.5):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2, steps=3)
        page.wait_for_timeout(50)
        places.append(page.evaluate(PLACES))
    page.mouse.up()
    page.wait_for_selector(COMPUTED)
    places.append(page.evaluate(PLACES))
    for later in places[1:]:
        moved = [a for a, b in zip(places[0], later, strict=True) if a[1:] != b[1:]]
        assert moved == []
