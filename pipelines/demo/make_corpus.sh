#!/bin/sh
# Makes data/wavs and data/metadata.csv from data/sentences.txt (id|speaker|text).
# Needs espeak-ng; version 1.51 gives the committed bytes. Three Finnish voices at
# 22,050 Hz. The clip named BROKEN is cut off in the middle on purpose: its header
# declares more than the file holds, and the demo quarantines it.
set -eu
cd "$(dirname "$0")/data"

BROKEN=eero_10

voice_of() {
    case "$1" in
    aino) echo "fi+f2 200 55" ;;
    eero) echo "fi+m3 205 40" ;;
    veikko) echo "fi+m7 190 30" ;;
    *) echo "no voice for speaker \`$1\`" >&2; exit 1 ;;
    esac
}

rm -rf wavs
mkdir wavs
: >metadata.csv
while IFS='|' read -r id speaker text; do
    # shellcheck disable=SC2046 # three words are wanted
    set -- $(voice_of "$speaker")
    espeak-ng -v "$1" -s "$2" -p "$3" -w "wavs/$id.wav" -- "$text"
    printf '%s.wav|%s|%s\n' "$id" "$text" "$speaker" >>metadata.csv
done <sentences.txt

bytes=$(wc -c <"wavs/$BROKEN.wav")
head -c $((bytes * 3 / 5)) "wavs/$BROKEN.wav" >"wavs/$BROKEN.cut"
mv "wavs/$BROKEN.cut" "wavs/$BROKEN.wav"
