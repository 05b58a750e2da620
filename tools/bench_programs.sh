#!/usr/bin/env bash
# Builds the benchmark programs (`training`, `speech`, `fish_dac`) and puts them beside `throstle`,
# where `tools/gpu.sh` looks for them.
#
#     tools/bench_programs.sh [debug|release]
set -euo pipefail

profile=${1:-release}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# In `debug` like the build of the tests, so that nothing else is built again.
[ "$profile" = debug ] && read -ra flags <<< "${FEATURES:-}" || flags=(--release)
cd "$root"
export LIBTORCH
LIBTORCH=$(bash tools/libtorch.sh)
cargo build --quiet "${flags[@]}" --workspace --bench training --bench speech --bench fish_dac \
    --message-format=json |
    sed -n 's/.*"name":"\(training\|speech\|fish_dac\)".*"executable":"\([^"]*\)".*/\1 \2/p' |
    while read -r name built; do ln -f "$built" "target/$profile/$name"; done
