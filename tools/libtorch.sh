#!/usr/bin/env bash
# Finds libtorch, or installs it beside the project, and prints its folder.
#
# Search order: $LIBTORCH, the project's own `.libtorch`, the torch of the active python3. If none
# fits, the wheel is downloaded. The folder goes to stdout, everything else to stderr. `--check`
# downloads nothing: exit code 1 if none fits. `--cuda` takes only the project's own `.libtorch-cuda`,
# which has all libraries for CUDA (4.5 GB of disk) whether there is a GPU or not; `make soak` uses it.
set -euo pipefail

version=2.11.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/.libtorch
whole=
[ "${1:-}" != --cuda ] || { home=$root/.libtorch-cuda whole=yes LIBTORCH=; }
staging=$home.part

say() { printf 'libtorch: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# The release that folder $1 holds: wheels have version.py, the plain archive build-version.
release_of() {
    { sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$1/version.py" 2>/dev/null ||
        sed -n 's/^\([0-9.]*\).*/\1/p' "$1/build-version" 2>/dev/null || true; } | head -n 1
}

usable() {
    [ "$(release_of "$1")" = "$version" ] &&
        [ -e "$1/lib/libtorch_cpu.so" ] && [ -e "$1/lib/libc10.so" ] && [ -d "$1/include/ATen" ]
}

has_gpu() { [ -n "$whole" ] || [ -e /dev/nvidia0 ] || nvidia-smi -L >/dev/null 2>&1; }

# Succeeds if the helper libraries that $1's build loads at start lie beside it. A wheel
# for CUDA needs two even where no GPU is used, and all of them where one is.
complete() {
    usable "$1/torch" || return 1
    [ -e "$1/torch/lib/libtorch_cuda.so" ] || return 0
    compgen -G "$1/nvidia/*/lib/libcudart.so*" >/dev/null &&
        compgen -G "$1/nvidia/*/lib/libcupti.so*" >/dev/null || return 1
    ! has_gpu || compgen -G "$1/nvidia/*/lib/libcudnn.so*" >/dev/null
}

# Prints the folder that python3 would import torch from, without importing it, which takes seconds.
of_python() {
    python3 - 2>/dev/null <<'PYTHON' || true
import importlib.util
found = importlib.util.find_spec("torch")
print(found.submodule_search_locations[0] if found else "")
PYTHON
}

# Prints the progress of the download while the parent lives: often on a terminal, where the line is
# rewritten, and rarely elsewhere. It is measured on the disk, since pip's own output depends on its
# version.
show_growth() {
    local every=15 form='libtorch: %d MB so far\n' second=0
    [ ! -t 2 ] || { every=1; form='\rlibtorch: %d MB so far '; }
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        second=$((second + 1))
        # shellcheck disable=SC2059
        ((second % every)) || printf "$form" "$(du -sm "$staging" 2>/dev/null | cut -f1)" >&2
    done
}

# Prints pip's output without the addresses of downloads.
without_addresses() {
    sed -u -E '/^Looking in (indexes|links)/d; /Running pip as the .root/d; /^[[:space:]]*$/d
        s#https?://[^ ]*/##g; s#host=[^,)]*#host#g; s#^#libtorch: #' >&2
}

pip_install() {
    local status=0
    # Unpacked on the target disk: /tmp is often small.
    mkdir -p "$staging/unpack"
    TMPDIR=$staging/unpack PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PYTHONUNBUFFERED=1 \
        python3 -m pip install --disable-pip-version-check --no-input --no-compile \
        --progress-bar off --target "$staging" "$@" 2>&1 | without_addresses || status=$?
    rm -rf "$staging/unpack"
    return "$status"
}

# The helper package that the wheel names, reduced to the two parts that a CPU needs.
helpers() {
    sed -n 's/^Requires-Dist: cuda-toolkit\[.*\]==\([0-9.]*\).*/cuda-toolkit[cudart,cupti]==\1/p' \
        "$staging/torch-$version.dist-info/METADATA" | head -n 1
}

# Installed in a temporary folder and moved: a folder under the final name is always complete.
install() {
    python3 -m pip --version >/dev/null 2>&1 ||
        fail "needs python3 with pip to fetch torch $version; or set LIBTORCH to a folder that holds it"
    rm -rf "$staging" && mkdir "$staging"
    # Holds neither the lock nor the reader of stdout for longer than this lasts.
    show_growth 9>&- >/dev/null &
    trap "kill $! 2>/dev/null || true" EXIT
    local advice="torch $version could not be installed; set LIBTORCH to a folder that holds it"
    if has_gpu; then
        say "fetching torch $version with its CUDA libraries (about 3 GB)"
        pip_install "torch==$version" || fail "$advice"
    else
        say "fetching torch $version, CPU parts (about 0.6 GB)"
        pip_install --no-deps "torch==$version" || fail "$advice"
        local needed
        needed=$(helpers)
        [ -z "$needed" ] || pip_install "$needed" || fail "$advice"
    fi
    complete "$staging" || fail "the installed torch $version lacks files; $advice"
    # The files must reach the disk before the move does.
    sync -f "$staging" 2>/dev/null || sync
    rm -rf "$home" && mv "$staging" "$home"
    say "ready"
}

if [ -n "${LIBTORCH:-}" ]; then
    found=$(release_of "$LIBTORCH")
    usable "$LIBTORCH" || fail "LIBTORCH=\`$LIBTORCH\` holds ${found:+torch }${found:-no whole torch}, but torch $version is needed; set it to such a folder, or unset it to have one fetched"
    # Build scripts run in folders of their own.
    (cd "$LIBTORCH" && pwd)
    exit
fi
if complete "$home"; then echo "$home/torch"; exit; fi
found=$(of_python)
if [ -z "$whole" ] && [ -n "$found" ] && usable "$found"; then echo "$found"; exit; fi
[ "${1:-}" != --check ] || fail "no torch $version here; \`make build\` fetches it"

# Two set-ups at once: the second waits, then finds what the first installed.
exec 9>"$home.lock"
flock -n 9 2>/dev/null || { say "waiting for another set-up to finish"; flock 9; }
complete "$home" || install
echo "$home/torch"
