#!/usr/bin/env bash
# From `pip install` to the first sound, with no compiler and in environments of its own, which are removed:
#
#     tools/bench_install.sh WHEEL [CASE…]
#
#   bare   the wheel alone: `pip check`, and the stages of the demo that need no libtorch
#   torch  the wheel, then torch 2.11.0 by pip: the demo up to the first decoded recording, then the whole demo
#   uv     the same, installed by uv
#   wrong  the wheel beside another release of torch: the messages of `throstle doctor` and of a run
#
# The index of pip determines the build of torch 2.11.0: PyPI has the one with CUDA (7 GB), and the index
# https://download.pytorch.org/whl/cpu the one without. Without CASE: all. Caches of pip and uv are not used, so that
# every download counts. `env -i` hides Rust, other environments and `LIBTORCH`.
set -euo pipefail

wheel=$(realpath "${1:?usage: tools/bench_install.sh WHEEL [CASE…]}")
shift
cases=("$@")
[ $# -gt 0 ] || cases=(bare torch uv wrong)
python=$(python3 -c 'import sys; print(sys.executable)')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1

kept=$(env | grep -E '^(PIP|UV)_' || true)
mapfile -t kept <<< "$kept"
clean() { env -i PATH="$scratch/env/bin:/usr/bin:/bin" HOME="$scratch" "${kept[@]}" "$@"; }
now() { date +%s.%N; }
# timed WORDS COMMAND…: a row of the table.
timed() {
    local words=$1 start
    shift
    start=$(now)
    "$@" > "$scratch/log" 2>&1 || { echo "$words: exit code $?" >&2; tail -n 20 "$scratch/log" >&2; exit 1; }
    printf '| %s | %.1f s |\n' "$words" "$(echo "$(now) - $start" | bc)"
}
fresh() { rm -rf "$scratch/env" "$scratch/voice"; "$python" -m venv "$scratch/env"; }
first_sound() {
    local start=$1
    clean throstle init "$scratch/voice" --template demo > /dev/null
    timed "- the stages of the demo that need no libtorch" clean throstle run "$scratch/voice" voice
    timed "- up to the first sound of the codec (\`heard\`)" clean throstle run "$scratch/voice" heard
    printf '| - **from the start of the installation to the first sound** | %.1f s |\n' "$(echo "$(now) - $start" | bc)"
    timed "- the rest of the demo" clean throstle run "$scratch/voice"
    ls "$scratch/voice/out/spoken" > /dev/null
}

case_bare() {
    fresh
    timed "pip: the wheel" clean pip install --no-index "$wheel"
    timed "- \`pip check\`" clean pip check
    clean throstle init "$scratch/voice" --template demo > /dev/null
    timed "- the stages of the demo that need no libtorch" clean throstle run "$scratch/voice" voice
}

case_torch() {
    local start
    fresh
    start=$(now)
    timed "pip: the wheel with \`[torch]\`" clean pip install "$wheel[torch]"
    timed "- \`pip check\`" clean pip check
    first_sound "$start"
    echo "| - size of the environment | $(du -sh "$scratch/env" | cut -f 1)B |"
}

case_uv() {
    local start
    fresh
    clean pip install --quiet uv
    rm -rf "$scratch/voice" "$scratch/with-uv"
    start=$(now)
    timed "uv: a new environment" clean uv venv --quiet --python "$python" "$scratch/with-uv"
    timed "- the wheel with \`[torch]\`" clean uv pip install --quiet --python "$scratch/with-uv/bin/python" "$wheel[torch]"
    timed "- \`uv pip check\`" clean uv pip check --python "$scratch/with-uv/bin/python"
    rm -rf "$scratch/env" && ln -s with-uv "$scratch/env"
    first_sound "$start"
    rm "$scratch/env"
}

case_wrong() {
    fresh
    timed "pip: the wheel beside torch 2.10.0" clean pip install "$wheel" torch==2.10.0
    clean throstle init "$scratch/voice" --template demo > /dev/null
    clean throstle doctor 2>&1 | grep -i torch | sed 's/^/    /' || true
    if clean throstle run "$scratch/voice" tokens > "$scratch/log" 2>&1; then
        echo "a run with another torch has succeeded" >&2
        exit 1
    fi
    grep -i torch "$scratch/log" | sed 's/^/    /'
}

echo "| step | time |"
echo "|---|---|"
for name in "${cases[@]}"; do "case_$name"; done
