#!/usr/bin/env bash
# Compares the models with their reference implementations on random inputs and weights: every
# family with its default sizes, then with sizes drawn from seeds. Weight files are passed to the
# references and back, and the libraries of the original projects read the files that we write in
# their formats.
#
#     tools/parity.sh PROGRAM [FIRST_SEED] [SEEDS]
#
# PROGRAM is `throstle-torch`, with `throstle` beside it; `examples/samples` is built here. Prints
# one line per fixture; the folder of a failed fixture is kept.
set -euo pipefail

program=$1 first=${2:-1} seeds=${3:-4}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
fixtures=$root/stages/torch/fixtures
scratch=$(mktemp -d)
failures=0

# A family is a script that takes a folder, `--seed`, and `--random`.
families=()
for script in make_fish_dual_ar make_fish_dac make_lora make_vits make_vits_resblock2 make_wav2vec2 make_mms_fa \
    make_xtts_gpt make_xtts_sound check_export check_vits_export check_xtts_export; do
    [ ! -e "$fixtures/$script.py" ] || families+=("$script")
done

make_and_check() {
    local script=$1 folder=$2
    shift 2
    if [[ $script = check_samples ]]; then
        "$(dirname "$program")/examples/samples" "$folder" &&
            "$python" "$root/stages/formats/tests/fixtures/$script.py" "$folder"
    elif [[ $script = check_* ]]; then
        "$python" "$fixtures/$script.py" "$folder" --throstle "$(dirname "$program")/throstle" "$@"
    else
        "$python" "$fixtures/$script.py" "$folder" "$@" && "$program" check-fixture "$folder"
    fi
}

check() {
    local name=$1 folder=$scratch/$1 script=$2
    shift 2
    if make_and_check "$script" "$folder" "$@" >"$folder.log" 2>&1; then
        printf '%-24s %s agree\n' "$name" "$(grep -c ' ok$' "$folder.log")"
        rm -rf "$folder" "$folder.log"
    else
        failures=$((failures + 1))
        printf '%-24s OFF: see %s\n' "$name" "$folder.log"
        { grep -v ' ok$' "$folder.log" || true; } | head -n 12 | sed 's/^/    /'
    fi
}

# Like the build of the programs, so that nothing else is built again.
case $program in
    */release/*) profile=(--release) ;;
    *) read -ra profile <<< "${FEATURES:-}" ;;
esac
(
    cd "$root" && LIBTORCH=$(bash tools/libtorch.sh) &&
        LIBTORCH=$LIBTORCH cargo build --quiet "${profile[@]}" --workspace --example samples
)

python=$(bash "$root/tools/reference.sh")
check check_samples check_samples
for family in "${families[@]}"; do
    check "$family" "$family"
    for ((seed = first; seed < first + seeds; seed++)); do
        check "$family-$seed" "$family" --seed "$seed" --random
    done
done
rmdir "$scratch" 2>/dev/null || true
[ "$failures" = 0 ] || { echo "$failures of the fixtures failed" >&2; exit 1; }
