#!/usr/bin/env bash
# Lets a virtual environment import the project's own torch: `link_torch.sh ENVIRONMENT LIBTORCH`.
#
# Python's part of torch names CUDA libraries that a CPU never calls and that are gigabytes. For
# missing ones, empty libraries of the same names are loaded first; their symbols are resolved only
# when called.
set -euo pipefail

home=$1 libtorch=$2
packages=$(echo "$home"/lib/python3.*/site-packages)
stubs=$home/stubs

mkdir -p "$stubs"
for name in $(ldd "$libtorch/lib/libtorch_python.so" | sed -n 's/ => not found//p' | sort -u); do
    [ -e "$stubs/$name" ] || gcc -shared -x c /dev/null -Wl,-soname,"$name" -o "$stubs/$name" ||
        { printf 'torch: gcc could not make `%s`\n' "$name" >&2; exit 1; }
done
cat > "$packages/throstle_torch.py" <<PYTHON
import ctypes, os, sys
stubs = "$stubs"
if os.listdir(stubs):
    sys.setdlopenflags(os.RTLD_LAZY)
for name in os.listdir(stubs):
    ctypes.CDLL(os.path.join(stubs, name))
PYTHON
# A path file: a line is a folder of packages, or an import.
printf '%s\nimport throstle_torch\n' "$(dirname "$libtorch")" > "$packages/throstle_torch.pth"
