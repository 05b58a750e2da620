#!/usr/bin/env bash
# Counts what makes the code hard to find one's way in: names of types that a crate defines more than once, fields
# that other modules may change, lines, and files in a folder. `tools/house.sh [FOLDER]` counts another checkout.
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
exec python3 - <<'END'
import collections, pathlib, re, subprocess, tomllib

tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
files = [pathlib.Path(name) for name in tracked if name.endswith(".rs") and pathlib.Path(name).is_file()]
crates = {}
for name in tracked:
    path = pathlib.Path(name)
    if path.name == "Cargo.toml" and path.is_file():
        package = tomllib.loads(path.read_text()).get("package")
        if package:
            crates[path.parent] = package["name"]


def crate_of(path):
    return next((folder for folder in path.parents if folder in crates), None)


def is_test(path):
    parts = path.parts
    return "tests" in parts or "benches" in parts or "examples" in parts or path.stem in ("tests", "testing")


def split(text):
    """The lines of code, and those of tests in the same file."""
    code, _, tests = text.partition("#[cfg(test)]\nmod tests {")
    return len(code.splitlines()), len(tests.splitlines())


TYPE = re.compile(r"^ *(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait|union) ([A-Z]\w*)", re.M)
types = collections.defaultdict(collections.Counter)
code = collections.Counter()
tests = collections.Counter()
for path in files:
    crate, text = crate_of(path), path.read_text()
    if crate is None:
        continue
    if is_test(path):
        tests[crate] += len(text.splitlines())
        continue
    here, beside = split(text)
    code[crate] += here
    tests[crate] += beside
    types[crate].update(TYPE.findall(text.partition("#[cfg(test)]\nmod tests {")[0]))

print(f"{'crate':24}{'types':>7}{'twice':>7}{'more':>7}{'code':>9}{'tests':>9}")
for crate in sorted(code, key=str):
    names = types[crate]
    twice = sum(count == 2 for count in names.values())
    more = sum(count > 2 for count in names.values())
    print(f"{crates[crate]:24}{sum(names.values()):7}{twice:7}{more:7}{code[crate]:9}{tests[crate]:9}")
every = sum(types.values(), collections.Counter())
twice = sum(1 for names in types.values() for count in names.values() if count == 2)
more = sum(1 for names in types.values() for count in names.values() if count > 2)
print(f"{'all':24}{sum(every.values()):7}{twice:7}{more:7}{sum(code.values()):9}{sum(tests.values()):9}")

print("\nnames that a crate defines more than twice:")
for crate in sorted(types, key=str):
    often = [f"{name} {count}" for name, count in types[crate].most_common() if count > 2]
    if often:
        print(f"  {crates[crate]}: {', '.join(often)}")

for path in files:
    found = re.search(r"struct Schedule\b[^{]*\{(.*?)^\}", path.read_text(), re.S | re.M)
    if found and not is_test(path):
        fields = re.findall(r"^    pub(?:\([a-z]+\))? \w+:", found.group(1), re.M)
        print(f"\npublic fields of `Schedule`: {len(fields)}")

# `Schedule` is changed where its fields can be named: in its module, and in all of its folder if they are public.
changing = [path for path in files if not is_test(path) and re.search(r"^impl.* Schedule<", path.read_text(), re.M)]
print(f"files with methods of `Schedule`: {len(changing)}")
folders = collections.Counter(path.parent for path in files if not is_test(path))
print("\nfolders with the most files:")
for folder, count in folders.most_common(8):
    print(f"  {count:4} {folder}")
END
