"""Ctrl-C, `kill` and a closed terminal at the worst moments: one line, the right exit code."""

import signal
import subprocess
import sys
import textwrap

import pytest

from capax.cli.signals import Signals

# A command line whose command is given, under the real entry point. It says when it is ready, and
# then spends its time in a way that Ctrl-C does not like.
FRAME = """
import atexit, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
import capax.cli.entry as entry, capax.cli.signals as signals

class Command:
    command_line = staticmethod(lambda: command())

OUT = os.dup(1)  # at the end of a command 1 is standard error: what is said there is no result

def ready():
    os.write(OUT, b"ready\\n")

def spend(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.002)

{body}
sys.modules["capax.cli.main"] = Command
entry.main()
"""
CLEANS_UP = """
def command():
    try:
        ready()
        spend(20)
    finally:
        spend(0.3)
        os.write(1, b"clean\\n")
    return 0
"""


def start(body, *before):
    program = FRAME.format(body=textwrap.dedent(body))
    if not before:  # nohup ignores it
        program = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n{program}"
    process = subprocess.Popen(
        [*before, sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process):
    out, said = process.communicate(timeout=30)
    return process.returncode, out, said


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "error: interrupted\n"),
        (signal.SIGTERM, 143, "error: terminated\n"),
        (signal.SIGHUP, 129, "error: the terminal was closed\n"),
    ],
)
def test_a_signal_cleans_up_and_its_echo_changes_nothing(number, code, said):
    process = start(CLEANS_UP)
    process.send_signal(number)
    process.send_signal(number)
    assert ended(process) == (code, "clean\n", said)


LOST = {
    "in a finaliser": """
        class Slow:
            def __del__(self):
                ready()
                spend(0.5)
        def command():
            Slow()
            spend(20)
            return 0
        """,
    "by somebody who catches everything": """
        def command():
            try:
                ready()
                spend(20)
            except BaseException:
                pass
            return 0
        """,
    "in an import that fails of it": """
        def command():
            try:
                ready()
                spend(20)
            except BaseException as error:
                raise ImportError("could not be initialised") from error
        """,
    "after the answer": """
        def command():
            atexit.register(lambda: (ready(), spend(20)))
            return 0
        """,
    "in compiled code": """
        import ctypes
        signals.GRACE = 0.2
        def command():
            ready()
            end = time.monotonic() + 20
            while time.monotonic() < end:
                try:
                    ctypes.CDLL(None).usleep(100_000)
                except KeyboardInterrupt:
                    pass
            return 0
        """,
}


def test_an_interrupted_sweep_says_how_to_go_on(capfd):
    for arguments, advice in ((["sweep", "a.toml"], True), (["--debug", "card"], True),
                              (["compile", "sweep"], False), ([], False)):  # fmt: skip
        heard = Signals(arguments)
        heard.number = signal.SIGINT
        assert heard.say() == 130
        words = "; the same command continues where it stopped" if advice else ""
        assert capfd.readouterr().err == f"error: interrupted{words}\n"


@pytest.mark.parametrize("how", LOST)
def test_a_lost_interruption_is_never_exit_code_0(how):
    process = start(LOST[how])
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", "error: interrupted\n")


def test_an_import_that_has_begun_is_finished(tmp_path):
    module = (
        "from __main__ import ready, spend\nready()\nspend(0.3)\nimport os\nos.write(1, b'whole')\n"
    )
    (tmp_path / "slow_import.py").write_text(module)
    process = start(
        f"""
        sys.path.insert(0, {str(tmp_path)!r})
        def command():
            import slow_import
            spend(20)
            return 0
        """
    )
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "whole", "error: interrupted\n")


def test_a_second_one_later_does_not_wait():
    body = "signals.ECHO = 0.1" + CLEANS_UP.replace(
        "spend(0.3)", 'os.write(1, b"now\\n"); spend(20)'
    )
    process = start(body)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "now\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "", "error: interrupted\n")


def test_what_we_were_started_to_ignore_stays_ignored():
    body = "def command():\n    ready()\n    spend(0.3)\n    return 0\n"
    process = start(body, "sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    process.send_signal(signal.SIGHUP)
    assert ended(process) == (0, "", "")
