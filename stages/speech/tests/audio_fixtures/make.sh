#!/bin/sh
# Makes the fixtures beside it. Needs ffmpeg (with libmp3lame and libvorbis) and flac.
set -eu
cd "$(dirname "$0")"

# Silence, 0.4 s of a 440 Hz tone at half of full scale from 0.2 s on, silence:
# 0.8 s at 44,100 Hz are 35,280 frames. The tests compute the same signal.
tone() {
    ffmpeg -v error -f lavfi \
        -i "aevalsrc='0.5*sin(2*PI*440*t)*gte(t,0.2)*lt(t,0.6)':s=44100:d=0.8" \
        -map_metadata -1 -fflags +bitexact -flags:a +bitexact -y "$@"
}

tone -c:a pcm_s16le tone.wav
flac --silent --best --no-padding --force tone.wav -o tone.flac
tone -c:a libmp3lame -b:a 64k tone.mp3
tone -c:a libvorbis -q:a 3 -page_duration 100000 tone.ogg
tone -c:a aac -b:a 64k tone.m4a
tone -ar 16000 -c:a alac -sample_fmt s16p alac.m4a
tone -ar 16000 -c:a adpcm_ima_wav adpcm.wav
tone -c:a libopus -b:a 32k -ar 48000 opus.ogg
rm tone.wav
