"""Ctrl-C, `kill` and a closed terminal: clean up, print one line, never exit with code 0.

The first signal raises KeyboardInterrupt in the main thread, so that every `finally` runs. Not in
an import, which many extensions do not support (they print it, raise another error, crash), but
right after it. Python may lose this exception (in a finaliser, in code that catches all errors) and
may raise it late (in compiled code). So the exit does not depend on it: the signal is stored and
decides the exit code, a lost one is sent again, no other message is printed, and a process that
still runs GRACE seconds later is ended. Files and stores are safe in this case.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

GRACE = 10.0  # seconds to clean up in
ECHO = 1.0  # seconds in which a second signal counts as a copy of the first, from a wrapper
WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal was closed",
}


RESUMED = ("sweep", "card", "reproduce")
"""Commands that keep every finished trial: started again, they continue where they stopped."""


class Signals:
    """The signals that arrived. `number` is the first one, 0 before it."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self.number = 0
        command = next((word for word in arguments if not word.startswith("-")), "")
        again = "; the same command continues where it stopped"
        self._advice = again if command in RESUMED else ""
        self._since = 0.0
        self._due = self._closing = self._said = False  # due: to be raised when it is sent again

    def catch(self) -> None:
        """Handle signals from now on; signals that were ignored at the start stay ignored."""
        for number in WORDS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._arrived)
        sys.unraisablehook = self._not_lost(sys.unraisablehook)
        sys.excepthook = self._unless_cut(sys.excepthook)
        self._watch()

    def close(self) -> None:
        """After the clean-up: from now on a signal ends the process at once."""
        self._closing = True

    def say(self) -> int:
        """Print one line, once; return the exit code 128 + signal, as shells do."""
        if not self._said:
            self._said = True
            # Below the ^C that terminals echo, and with the cursor that a progress bar may hide.
            before = "\x1b[?25h\n" if os.isatty(2) else ""
            line = f"{before}error: {WORDS[signal.Signals(self.number)]}{self._advice}\n"
            with suppress(OSError):  # the stream may be closed; the exit code remains
                os.write(2, line.encode())
        return 128 + self.number

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        again = bool(self.number) and not self._due
        self.number = self.number or number
        if self._closing or (again and time.monotonic() - self._since > ECHO):
            os._exit(self.say())
        if not again:
            self._since, self._due = time.monotonic(), _importing(frame)
            if not self._due:
                raise KeyboardInterrupt

    def _not_lost(self, before: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Python prints and forgets an exception in a finaliser: the signal is sent again."""

        def hook(unraisable: Any) -> None:
            if not issubclass(unraisable.exc_type, KeyboardInterrupt):
                before(unraisable)
                return
            self._due = True

        return hook

    def _unless_cut(self, before: Callable[..., Any]) -> Callable[..., Any]:
        """Print tracebacks of errors, but not after an interruption."""

        def hook(*error: Any) -> None:
            if not self.number:
                before(*error)

        return hook

    def _watch(self) -> None:
        """Start a thread that notices every signal, even while the main thread is busy."""
        self._main = threading.get_ident()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._end_late, args=(reader,), daemon=True, name="signals").start()

    def _end_late(self, reader: int) -> None:
        while (number := os.read(reader, 1)[0]) not in WORDS:
            pass
        began, swallowed = time.monotonic(), False
        while (spent := time.monotonic() - began) < GRACE:
            time.sleep(0.02)
            if not swallowed and spent > GRACE / 2:
                self._due = swallowed = True
            if self._due:
                signal.pthread_kill(self._main, number)
        self.number = self.number or number
        os._exit(self.say())


def _importing(frame: FrameType | None) -> bool:
    """Whether this frame is inside an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
