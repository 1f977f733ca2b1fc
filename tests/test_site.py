"""The pages of the documentation are built, and a warning is an error: a dead link, a lost page.

Without the listings of sources and the index of words, which take most of the time: neither warns.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_site_builds_without_a_warning(tmp_path):
    # with --quiet no warning is counted, and nothing is strict
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "CAPAX_DOCS_WHOLE": "false"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()
