#!/bin/sh
# Installs the newest wheel of a folder into a clean environment and uses it there:
#   sh tests/clean_environment.sh PYTHON FOLDER
set -eu
wheel=$(ls -t "$2"/capax-*.whl | head -n 1)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
"$1" -m venv "$home/env"
"$home/env/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
cd "$home"
env/bin/capax doctor
env/bin/capax compile "x2 & x3 & x10" -T 100 --out and.safetensors
env/bin/capax verify and.safetensors
env/bin/capax reproduce --scale smoke --out out
"$home/env/bin/python" -c "import capax, sys; print('capax works alone on Python', sys.version.split()[0])"
