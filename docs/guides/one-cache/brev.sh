#!/usr/bin/env bash
# The setup script of a Brev launchable, or of any rented machine: it runs once, when the machine starts. The
# program `throstle` must be on its search path. Set the variables of the bucket in the launchable, not here.
set -euo pipefail

: "${THROSTLE_REMOTE:?set it to the bucket, such as s3://team-bucket/voice}"
: "${VOICE:?set it to the address of the repository with the manifest}"

git clone --depth 1 "$VOICE" voice
cd voice
# 75: stopped on purpose; run again to continue.
until code=0; throstle run . --cache /tmp/voice || code=$?; [ "$code" != 75 ]; do sleep 5; done
exit "$code"
