#!/usr/bin/env bash
# Tests the Python module with real packages and the program $1. Installs the packages in a virtual environment of its
# own; `--with-torch` adds torch and lhotse (3 GB). `--fetch` in the place of the program only installs them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
home=$root/target/python
packages=(numpy==2.4.6 pandas==3.1.1 pyarrow==26.0.1 praat-parselmouth==0.4.7 webdataset==1.0.2
    datasets==5.2.0 packaging==26.4)
[ "${2:-}" != --with-torch ] || packages+=(torch==2.11.0 lhotse==1.33.0 urllib3 soundfile==0.14.0)

[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
[ "$1" != --fetch ] || exit 0
"$home/bin/python" "$root/python/tests/packages.py" "$1" "$root/docs/guides/python.md"
"$home/bin/python" "$root/python/tests/versions.py"
