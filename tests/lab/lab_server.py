"""`capax lab` as a process, and what its pages show, for the tests of both."""

import os
import subprocess

import psutil


class LabServer:
    """`capax lab --no-browser` as a process of its own, which shares the imports of `commands`."""

    def __init__(self, commands, home, port=0):
        self.commands, self.home = commands, home
        told = home / "pid"
        command = [*commands.client, "capax", "lab", "--no-browser", "--port", str(port)]
        plain = {"XDG_STATE_HOME": str(home), "CAPAX_TESTS_PID": str(told)}
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**commands.environment, **plain},
        )
        self.address = self.process.stdout.readline().strip()
        self.pid = int(told.read_text())  # of the server; `process` waits for its end
        self.base = self.address.split("/compile")[0]
        self.port = int(self.base.rpartition(":")[2])

    def below(self):
        """The processes that it has started, and those that they have."""
        return psutil.Process(self.pid).children(recursive=True)

    def end(self, number=2):
        os.kill(self.pid, number)
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
