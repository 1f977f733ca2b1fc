"""How fast the pages of the lab are: first view after the start, and frames while dragging.

`python benchmarks/lab.py [-T 1000]` starts `capax lab` and Chromium (Playwright), and prints the
seconds from the start of the command until the page can be used and until its first computed
number, and the time between two frames while the slider of the temperature is dragged at T.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

NUMBER = ".number[aria-label=margin] output[data-kind=computed]"
FRAMES = """() => { const mine = (window.frames_ = []); let last = performance.now();
    const next = (now) => {
        mine.push(now - last); last = now;
        if (mine === window.frames_) requestAnimationFrame(next); };
    requestAnimationFrame(next); }"""


def frames_while_dragging(page: Page, name: str, seconds: float) -> list[float]:
    """Milliseconds between frames while the mouse moves the slider `name` to and fro."""
    box = page.locator(f"input[type=range][data-name={name}]").bounding_box()
    assert box is not None
    x, y, width = box["x"], box["y"] + box["height"] / 2, box["width"]
    page.mouse.move(x + width / 2, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < seconds:
        page.mouse.move(x + width * (0.5 + 0.3 * float(np.sin(3 * now))), y)
    frames = page.evaluate("window.frames_")
    page.mouse.up()
    return frames[2:]


def measured(T: int, seconds: float) -> dict[str, Any]:
    """All numbers, from one server and one window."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto("about:blank")
        began = time.perf_counter()
        command = [sys.executable, "-m", "capax.cli", "lab", "--no-browser"]
        server = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": home},
        )
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        told = time.perf_counter() - began
        page.goto(address)
        page.wait_for_selector("html.ready")
        usable = time.perf_counter() - began
        page.wait_for_selector(NUMBER, timeout=60_000)
        number = time.perf_counter() - began
        page.goto(f"{address.split('?')[0]}?T={T}")
        page.wait_for_selector(NUMBER, timeout=60_000)
        page.wait_for_timeout(1500)  # the ladder arrives
        found = {name: frames_while_dragging(page, name, seconds) for name in ("temperature", "T")}
        server.send_signal(2)
        server.wait()
        browser.close()
    shown = {"address_s": told, "usable_s": usable, "first_number_s": number}
    for name, frames in found.items():
        middle, high = np.quantile(frames, [0.5, 0.95])
        shown[f"drag_{name}"] = {
            "frames": len(frames),
            "median_ms": float(middle),
            "p95_ms": float(high),
            "per_second": 1000 * len(frames) / float(np.sum(frames)),
        }
    return shown


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-T", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=4.0)
    given = parser.parse_args()
    print(json.dumps(measured(given.T, given.seconds), indent=2))


if __name__ == "__main__":
    main()
