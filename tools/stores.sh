#!/usr/bin/env bash
# Finds or installs a server for the tests of remotes, and prints the path of its program:
#   tools/stores.sh moto      an S3 server, by pip, into `.stores/moto`
#   tools/stores.sh azurite   Azure Blob Storage, by npm, into `.stores/azurite`
#
# Search order: $MOTO_SERVER or $AZURITE, then the folder. The path goes to stdout, everything else to
# stderr; exit code 1 if the server cannot be installed. No part of the servers is shipped or linked.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/.stores
moto=(moto[s3]==5.2.5 flask flask-cors)
azurite=azurite@3.35.0

say() { printf 'stores: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# One test installs at a time.
lock() { mkdir -p "$home"; exec 9>"$home/lock"; flock 9; }

find_moto() {
    local program=$home/moto/bin/moto_server
    [ -z "${MOTO_SERVER:-}" ] || { echo "$MOTO_SERVER"; return; }
    command -v python3 >/dev/null || fail "moto needs python3 with venv and pip"
    lock
    if [ ! -e "$home/moto/done" ]; then
        say "installing moto"
        rm -rf "$home/moto"
        python3 -m venv "$home/moto" >&2 || fail "python3 cannot make a virtual environment"
        "$home/moto/bin/python" -m pip install --disable-pip-version-check --no-input --quiet \
            "${moto[@]}" >&2 || fail "moto could not be installed"
        touch "$home/moto/done"
    fi
    echo "$program"
}

find_azurite() {
    local program=$home/azurite/node_modules/.bin/azurite-blob
    [ -z "${AZURITE:-}" ] || { echo "$AZURITE"; return; }
    command -v npm >/dev/null || fail "azurite needs npm"
    lock
    if [ ! -e "$home/azurite/done" ]; then
        say "installing azurite"
        rm -rf "$home/azurite" && mkdir -p "$home/azurite"
        (cd "$home/azurite" && npm install --no-audit --no-fund --no-save --silent "$azurite") >&2 ||
            fail "azurite could not be installed"
        touch "$home/azurite/done"
    fi
    echo "$program"
}

case "${1:-}" in
    moto) find_moto ;;
    azurite) find_azurite ;;
    *) fail "usage: tools/stores.sh moto|azurite" ;;
esac
