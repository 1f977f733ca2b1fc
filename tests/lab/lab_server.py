"""`capax lab` as a process, for the tests of its pages."""

import os
import subprocess
import sys


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

    def end(self, number=2):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)  # closes its pipes too
        return self.process.returncode, out, err
