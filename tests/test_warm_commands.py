"""Processes of the warm server: many at once, each with its own end, output and folder."""

from multiprocessing.pool import ThreadPool

PROGRAMS = {
    0: "import time; time.sleep(0.2)",
    7: "raise SystemExit(7)",
    1: "1 / 0",
    -9: "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
}


def test_everyone_who_asks_gets_the_end_and_the_output_of_its_own_process(warm_commands, tmp_path):
    def ask(k):
        code, program = [*PROGRAMS.items()][k % len(PROGRAMS)]
        folder = tmp_path / str(k)
        folder.mkdir()
        shown = f"import os; print({k}, os.path.basename(os.getcwd()), flush=True); "
        done = warm_commands.python(shown + program, folder)
        return done.returncode == code and done.stdout == f"{k} {k}\n", done

    with ThreadPool(4) as threads:
        answers = threads.map(ask, range(12))
    assert [done for right, done in answers if not right] == []


def test_a_script_sees_the_end_of_its_commands(warm_commands, tmp_path):
    said = warm_commands.bash("capax cite | head -n 1; capax nonsense || echo code $?", tmp_path)
    assert said.stdout.splitlines()[1] == "code 2" and said.stderr.startswith("error: ")
