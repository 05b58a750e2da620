#!/usr/bin/env bash
# Sets up the reference implementations of the parity checks, in `.reference`, and prints the Python
# that runs them. They share the project's own torch. Only `make parity` and the benchmarks against
# references need them; nothing of them is shipped or linked.
#
# The path of Python goes to stdout, everything else to stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/.reference
python=$home/bin/python

# Without their dependencies, which would install another torch and many unused packages; the
# generators replace the few that the models import with stubs.
models=(
    fish-speech==0.1.0 descript-audio-codec==1.0.0 loralib==0.1.2 transformers==4.57.6
    coqui-tts==0.27.2 coqui-tts-trainer==0.3.1 coqpit-config==0.2.1 torchaudio==2.11.0
)
plain=(
    absl-py==2.3.1 certifi==2025.11.12 charset-normalizer==3.4.4 docopt==0.6.2 einops==0.8.2
    filelock==3.20.0 fsspec==2025.10.0 hangul-romanize==0.1.0 huggingface-hub==0.36.0
    idna==3.11 jinja2==3.1.6 loguru==0.7.3
    markupsafe==3.0.3 mpmath==1.3.0 networkx==3.5 num2words==0.5.14 numpy==2.2.6
    packaging==25.0 protobuf==6.33.0 psutil==7.2.2 pypinyin==0.55.0 pyyaml==6.0.3
    regex==2025.11.3 requests==2.32.5 safetensors==0.6.2 six==1.17.0 sympy==1.14.0
    tensorboard==2.20.0 tiktoken==0.12.0 tokenizers==0.22.1 tqdm==4.67.1
    typing-extensions==4.15.0 urllib3==2.5.0
)
wanted=$(printf '%s\n' "${models[@]}" "${plain[@]}")

say() { printf 'reference: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

libtorch=$(bash "$root/tools/libtorch.sh")

install() {
    command -v python3 >/dev/null || fail "needs python3 with venv and pip"
    say "fetching the reference implementations (about 62 MB)"
    rm -rf "$home" && python3 -m venv "$home" || fail "python3 cannot make a virtual environment"
    "$python" -m pip install --disable-pip-version-check --no-input --quiet --no-deps \
        "${models[@]}" "${plain[@]}" >&2 || fail "the packages could not be installed"
    # Last, so that an interrupted set-up is repeated.
    printf '%s\n' "$wanted" > "$home/wanted"
    say "ready"
}

[ "$(cat "$home/wanted" 2>/dev/null)" = "$wanted" ] || install
bash "$root/tools/link_torch.sh" "$home" "$libtorch"
echo "$python"
