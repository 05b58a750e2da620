#!/usr/bin/env bash
# Finds Chromium, or installs Debian's, and prints the path of the program. The tests of the report
# page open it in a real browser.
#
# Search order: $CHROMIUM, then `chromium` and similar names in the PATH. If none is found, Debian's
# package is installed, which needs apt and root. The path goes to stdout, everything else to
# stderr. `--check` installs nothing: exit code 1 if none is found.
set -euo pipefail

# The first release with `light-dark()` in style sheets.
oldest=123

say() { printf 'chromium: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

release_of() {
    "$1" --version 2>/dev/null | sed -n 's/^[^0-9]*\([0-9][0-9]*\)\..*/\1/p' | head -n 1
}

usable() {
    local release
    release=$(release_of "$1")
    [ -n "$release" ] && [ "$release" -ge "$oldest" ]
}

find_one() {
    local name path
    for name in chromium chromium-browser google-chrome; do
        path=$(command -v "$name") && usable "$path" && { echo "$path"; return; }
    done
    return 1
}

if [ -n "${CHROMIUM:-}" ]; then
    usable "$CHROMIUM" || fail "CHROMIUM=\`$CHROMIUM\` is no Chromium $oldest or newer; set it to one, or unset it"
    echo "$CHROMIUM"
    exit
fi
find_one && exit
advice="install Chromium $oldest or newer, or set CHROMIUM to one"
[ "${1:-}" != --check ] || fail "not found; $advice"
command -v apt-get >/dev/null || fail "not found, and there is no apt-get to install it; $advice"
[ "$(id -u)" = 0 ] || fail "not found, and only root may install it; $advice"

# Prints progress and errors, without the addresses of downloads.
apt() {
    DEBIAN_FRONTEND=noninteractive apt-get --quiet -o Dpkg::Use-Pty=0 "$@" 2>&1 |
        sed -u -n -E 's#https?://[^ ]+ ##
            s/^(Get:.*\[[0-9.,]+ MB\]|Fetched|(Unpacking|Setting up) chromium|E:)/chromium: &/p' >&2
}

say "installing Debian's package (about 0.1 GB to fetch)"
apt update || fail "the list of packages could not be fetched; $advice"
apt install --yes --no-install-recommends chromium || fail "it could not be installed; $advice"
find_one || fail "what was installed does not work; $advice"
