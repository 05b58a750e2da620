#!/usr/bin/env bash
# Installs in `.players` the programs that run exported graphs and use the server, and prints the Python that has
# them: onnxruntime, sherpa-onnx and piper-tts for exported graphs, and OpenAI's client for
# `throstle serve`. Only tests use them; without them, those tests say that they are skipped.
#
# The path of Python goes to stdout, everything else to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/.players
python=$home/bin/python
packages=(onnxruntime==1.32.0 sherpa-onnx==2.0.1 piper-tts==1.8.0 openai==3.54.0)
wanted=$(printf '%s\n' "${packages[@]}")

fail() { printf 'players: %s\n' "$*" >&2; exit 1; }

if [ "$(cat "$home/wanted" 2>/dev/null)" != "$wanted" ]; then
    command -v python3 >/dev/null || fail "needs python3 with venv and pip"
    rm -rf "$home" && python3 -m venv "$home" || fail "python3 cannot make a virtual environment"
    "$python" -m pip install --disable-pip-version-check --no-input --quiet "${packages[@]}" >&2 ||
        fail "the packages could not be installed"
    # Written last, so that an interrupted installation is repeated.
    printf '%s\n' "$wanted" > "$home/wanted"
fi
echo "$python"
