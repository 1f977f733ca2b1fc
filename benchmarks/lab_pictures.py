"""Draws the pictures of the lab in the docs and the film strip of the README, from the real pages.

`python benchmarks/lab_pictures.py` starts `capax lab` and Chromium (Playwright), and writes
docs/images/lab_*.png. Look at every one of them afterwards.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COMPUTED = "main .number [data-kind=computed]"
RUNS = "create"
LOOKS = (0, 1, 2, None)  # looks of the strip; the last one is the end


def window(browser: Browser, address: str, **options: object) -> Page:
    """A window that has the token."""
    context = browser.new_context(device_scale_factor=1, **options)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    return page


def shot(page: Page, base: str, place: str, name: str, *, ready: str = COMPUTED) -> None:
    """One view as a picture of the window."""
    page.goto(f"{base}/{place}")
    page.wait_for_selector(ready, timeout=60_000)
    page.wait_for_timeout(500)
    save(page.screenshot(), name)


def save(content: bytes, name: str) -> None:
    """A small PNG: pages have few colours."""
    picture = Image.open(io.BytesIO(content)).convert("RGB")
    few = picture.quantize(256, kmeans=2, dither=Image.Dither.NONE)
    few.save(IMAGES / f"{name}.png", optimize=True)


def trained(page: Page, base: str) -> None:
    """Both runs of Create, up to their ends."""
    page.goto(f"{base}/{RUNS}")
    page.locator("[data-action=train]").click()
    for run in ("#run-0", "#run-1"):
        page.wait_for_selector(f"{run} [data-outcome]", timeout=300_000)
    page.wait_for_timeout(300)


def film_strip(page: Page, name: str) -> None:
    """Moments of the first run side by side: formula, numbers, attention by position."""
    slider = page.locator("input[data-name=look-0]")
    most = int(slider.get_attribute("max") or 0)
    parts = []
    for look in LOOKS:
        slider.fill(str(most if look is None else look))
        page.wait_for_timeout(200)
        top = page.locator("#run-0 .now").bounding_box()
        end = page.locator("#run-0 .strip-caption").bounding_box()
        assert top is not None and end is not None
        x, y = top["x"] - 8, top["y"] - 4
        box = {"x": x, "y": y, "width": top["width"] + 16, "height": end["y"] + 44 - y}
        content = page.screenshot(clip=box, full_page=True)  # type: ignore[arg-type]
        parts.append(Image.open(io.BytesIO(content)).convert("RGB"))
    wide = sum(part.width for part in parts)
    strip = Image.new("RGB", (wide, parts[0].height), "white")
    for k, part in enumerate(parts):
        strip.paste(part, (k * part.width, 0))
    made = io.BytesIO()
    strip.save(made, "PNG")
    save(made.getvalue(), name)


def parity(page: Page, base: str, name: str) -> None:
    """A run of a parity, with its hidden progress."""
    page.goto(f"{base}/create?formula=parity3&T=12&m=1000&seed=2")
    page.locator("#run-0 [data-action=restart]").click()
    page.wait_for_selector("#run-0 [data-outcome]", timeout=300_000)
    page.wait_for_timeout(300)
    save(page.locator("#run-0").screenshot(), name)


def main() -> None:
    """All pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    command = [sys.executable, "-m", "capax.cli", "lab", "--no-browser"]
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": home}
        )
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        base = address.split("/compile")[0]
        wide = {"width": 1200, "height": 860}
        light = window(browser, address, viewport=wide, color_scheme="light")
        dark = window(browser, address, viewport=wide, color_scheme="dark")
        phone = window(browser, address, viewport={"width": 390, "height": 1300})
        head = "compile?T=50&on=1,5,12,20-23,30,41"
        for page, kind in ((light, ""), (dark, "_dark"), (phone, "_phone")):
            shot(page, base, head, f"lab_compile{kind}")
            shot(page, base, "laws", f"lab_laws{kind}", ready="#laws-chart .mark")
            shot(page, base, "bounds", f"lab_bounds{kind}")
        trained(light, base)
        save(light.screenshot(), "lab_create")
        with light.expect_download() as download:
            light.locator("[data-action=freeze]").click()
        frozen = Path(home) / "create.html"
        download.value.save_as(frozen)
        film_strip(light, "lab_film_strip")
        parity(light, base, "lab_parity")
        for page, kind in ((dark, "_dark"), (phone, "_phone")):
            page.goto(frozen.as_uri())
            page.wait_for_selector("#run-1 [data-outcome]")
            page.wait_for_timeout(300)
            save(page.screenshot(), f"lab_create{kind}")
        server.send_signal(2)
        server.wait()
        browser.close()


if __name__ == "__main__":
    main()
