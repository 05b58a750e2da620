#!/usr/bin/env python3
"""Lists the packages that the two programs consist of, as CycloneDX 1.5 in JSON.

    tools/sbom.py [FEATURE...] > throstle.cdx.json

Reads Cargo.lock and `cargo metadata` for this platform, offline. Packages that only tests or builds need are left
out; features are those of the build, such as `cli/cloud`. The same sources give the same bytes.
"""

import json
import os
import subprocess
import sys
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The packages with the programs.
PROGRAMS = ["cli", "stage-torch"]
# What the worker loads when it starts, and is not part of any package here.
LIBTORCH = {
    "type": "library",
    "bom-ref": "libtorch",
    "name": "libtorch",
    "version": "2.11.0",
    "scope": "optional",
    "licenses": [{"license": {"id": "BSD-3-Clause"}}],
    "description": "Not included: the worker loads the one that is installed.",
}


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def metadata(features):
    host = next(line[6:] for line in run("cargo", "-vV").splitlines() if line.startswith("host: "))
    chosen = ["--features", ",".join(features)] if features else []
    form = ["--format-version", "1", "--offline", "--locked", "--filter-platform", host]
    return json.loads(run("cargo", "metadata", *form, *chosen))


def checksums():
    with open(f"{ROOT}/Cargo.lock", "rb") as file:
        packages = tomllib.load(file)["package"]
    return {(one["name"], one["version"]): one.get("checksum") for one in packages}


def linked(nodes, starts):
    """The packages in the programs, and for each those that it links."""
    found, left = {}, list(starts)
    while left:
        one = left.pop()
        if one in found:
            continue
        is_linked = lambda dep: any(kind["kind"] is None for kind in dep["dep_kinds"])
        found[one] = sorted(dep["pkg"] for dep in nodes[one]["deps"] if is_linked(dep))
        left += found[one]
    return found


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums):
    own = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package.get("license"):
        # Older packages write `/` for `OR`.
        own["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if sums.get((package["name"], package["version"])):
        own["hashes"] = [{"alg": "SHA-256", "content": sums[package["name"], package["version"]]}]
    if package.get("repository"):
        own["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return own


def main():
    data = metadata(sys.argv[1:])
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    own = set(data["workspace_members"])
    starts = [id for id in own if packages[id]["name"] in PROGRAMS]
    found, sums = linked(nodes, starts), checksums()
    version = next(packages[id]["version"] for id in starts)
    order = sorted(found, key=lambda id: (packages[id]["name"], packages[id]["version"]))
    top = f"pkg:generic/throstle@{version}"
    dependencies = [{"ref": top, "dependsOn": sorted([reference(packages[id]) for id in starts] + ["libtorch"])}]
    for id in order:
        below = sorted({reference(packages[one]) for one in found[id]})
        dependencies.append({"ref": reference(packages[id]), "dependsOn": below})
    dependencies.append({"ref": "libtorch", "dependsOn": []})
    print(json.dumps({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": top, "name": "throstle", "version": version, "purl": top,
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }},
        "components": [*(component(packages[id], sums) for id in order), LIBTORCH],
        "dependencies": dependencies,
    }, indent=1))


main()
