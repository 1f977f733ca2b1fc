"""`capax lab` as a process, and what its pages show, for the tests of both."""

import os
import subprocess
import sys

import psutil


class LabServer:
    """`capax lab --no-browser` as a process of its own."""

    def __init__(self, home, port=0):
        self.home = home
        command = [sys.executable, "-m", "capax.cli", "lab", "--no-browser", "--port", str(port)]
        plain = {**os.environ, "XDG_STATE_HOME": str(home), "JAX_ENABLE_X64": "0"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain
        )
        self.address = self.process.stdout.readline().strip()
        self.base = self.address.split("/compile")[0]
        self.port = int(self.base.rpartition(":")[2])

    def below(self):
        """The processes that it has started, and those that they have."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number=2):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)  # closes its pipes too
        return self.process.returncode, out, err


def value(page, label, kind="computed", within="main"):
    """The number with this label, with all its digits, once it is of this kind."""
    box = page.locator(f'{within} .number[aria-label="{label}"] output[data-kind={kind}]')
    box.wait_for(timeout=60_000)
    return float(box.get_attribute("data-value"))


def said(page, within="main"):
    return " ".join(page.locator(f"{within} .message").all_inner_texts())


def until(page, holds, seconds=60):
    """Wait until `holds()`; a test inside the page would be a script, which its policy forbids."""
    for _ in range(seconds * 20):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not come true")
