"""Fetches a private libtorch for `throstle-torch`: the parts of the torch wheel that a program needs.

    python3 setup.py TO VERSION cpu|cuda

Downloads resume where they ended, and are compared with the digests of the package index. Files get their final
names when they are complete. Needs only the standard library: there may be no pip.
"""

import hashlib
import html.parser
import json
import os
import platform
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

INDEX = "https://pypi.org/simple"
JSON = "application/vnd.pypi.simple.v1+json"
PIECE = 1 << 20
TRIES = 5
TIMEOUT = 60
# The packages that the libraries of torch load at their start, even without a GPU.
ALWAYS = ("cudart", "cupti")


class Problem(Exception):
    """An error with a message for the user."""


def say(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


class Links(html.parser.HTMLParser):
    """The links of a package index that sends HTML instead of JSON."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        link = dict(attributes).get("href")
        if tag == "a" and link:
            self.found.append(link)


def ask(address, **headers):
    request = urllib.request.Request(address, headers=headers)
    return urllib.request.urlopen(request, timeout=TIMEOUT)


def files(index, package):
    """The files of a package: name, address, SHA-256."""
    address = f"{index.rstrip('/')}/{package}/"
    try:
        with ask(address, Accept=f"{JSON}, text/html;q=0.5") as answer:
            kind, body, base = answer.headers.get_content_type(), answer.read(), answer.url
    except OSError as error:
        raise Problem(f"the package index `{index}` cannot be read: {error}") from None
    if kind == JSON:
        found = [(file["filename"], file["url"], file["hashes"].get("sha256")) for file in json.loads(body)["files"]]
    else:
        links = Links()
        links.feed(body.decode("utf-8", "replace"))
        found = []
        for link in links.found:
            path, _, fragment = link.partition("#")
            name = urllib.parse.unquote(path.rpartition("/")[2])
            found.append((name, path, fragment[7:] if fragment.startswith("sha256=") else None))
    return [(name, urllib.parse.urljoin(base, link), digest) for name, link, digest in found]


def choose(index, package, version):
    """Selects the wheel of a version for this machine; `13.0.*` means the newest one."""
    machine, fits = platform.machine(), []
    pattern = re.escape(version).replace(r"\*", r"[0-9.]+")
    for name, link, digest in files(index, package):
        parts = name[:-4].split("-") if name.endswith(".whl") else []
        if len(parts) < 5 or not re.fullmatch(pattern, parts[1]):
            continue
        if parts[-1] == "any" or ("linux" in parts[-1] and machine in parts[-1]):
            fits.append(([int(number) for number in re.findall(r"\d+", parts[1])], name, link, digest))
    if not fits:
        raise Problem(f"the package index `{index}` has no {package} {version} for {machine}")
    _, name, link, digest = max(fits, key=lambda fit: (fit[0], "t-" not in fit[1], fit[1]))
    if not digest:
        raise Problem(f"the package index `{index}` has no SHA-256 of `{name}`")
    return name, link, digest


class Progress:
    """A progress line: updated in place on a terminal, and rarely printed elsewhere."""

    def __init__(self, name):
        self.name, self.told, self.every = name, 0.0, 0.5 if sys.stderr.isatty() else 15

    def tell(self, done, total):
        if time.monotonic() - self.told > self.every:
            self.told = time.monotonic()
            share = f" of {total / 1e6:.0f}" if total else ""
            line = f"{self.name}: {done / 1e6:.0f}{share} MB"
            say(f"\r{line}  " if self.every < 1 else line, end="" if self.every < 1 else "\n")

    def end(self):
        if self.every < 1:
            say("\r", end="")


def download(link, path, digest):
    """Downloads a file, and continues where an earlier download ended."""
    if os.path.exists(path) and digest_of(path) == digest:
        return
    part, failed = f"{path}.part", 0
    while True:
        try:
            fetch(link, part)
            break
        except OSError as error:
            status = getattr(error, "code", None)
            if status == 416:
                # The part is at least as long as the file. Its digest decides below.
                break
            failed += 1
            if failed == TRIES or (status is not None and status < 500):
                raise Problem(f"`{os.path.basename(path)}` cannot be fetched: {error}; run again to continue") from None
            say(f"{error}: retrying")
            time.sleep(failed)
    if digest_of(part) != digest:
        os.unlink(part)
        raise Problem(f"`{os.path.basename(path)}` does not match the SHA-256 in the index: run again to fetch it again")
    os.replace(part, path)


def fetch(link, part):
    have = os.path.getsize(part) if os.path.exists(part) else 0
    progress = Progress(os.path.basename(part)[:-5])
    with ask(link, **({"Range": f"bytes={have}-"} if have else {})) as answer:
        resumes = answer.status == 206
        rest = int(answer.headers.get("Content-Length") or 0)
        done = have if resumes else 0
        total = done + rest
        with open(part, "ab" if resumes else "wb") as file:
            while piece := answer.read(PIECE):
                file.write(piece)
                done += len(piece)
                progress.tell(done, total)
    progress.end()
    if rest and done < total:
        raise OSError(f"the connection ended after {done} of {total} bytes")


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def unpack(path, to):
    """Unpacks the libraries of a wheel and the files with its version. No file is written outside of the folder."""
    with zipfile.ZipFile(path) as wheel:
        for entry in wheel.infolist():
            name = os.path.normpath(entry.filename)
            if name.startswith((os.sep, "..")):
                raise Problem(f"`{os.path.basename(path)}` has the file `{entry.filename}` outside its folder")
            is_wanted = re.match(r"torch/lib/.*\.so|torch/version\.py$|nvidia/.*\.so|[^/]*\.dist-info/METADATA$", name)
            if is_wanted and not entry.is_dir():
                wheel.extract(entry, to)


def requirements(folder, package, extra=None):
    """The exact requirements in the metadata of an unpacked wheel: name, extras, version."""
    found = [name for name in os.listdir(folder) if name.endswith(".dist-info") and name.lower().replace("_", "-").startswith(f"{package}-")]
    with open(os.path.join(folder, found[0], "METADATA"), encoding="utf-8") as file:
        lines = [line[15:] for line in file if line.startswith("Requires-Dist: ")]
    for line in lines:
        match = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?\s*\(?==\s*([0-9.*]+)", line)
        of = re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        if match and (of.group(1) if of else None) == extra:
            yield match.group(1).lower().replace("_", "-"), (match.group(2) or "").replace(" ", "").split(","), match.group(3)


def install(to, version, form, index):
    """Installs everything into a temporary folder, which is renamed to `to` at the end."""
    fetched, staging = f"{to}.wheels", f"{to}.part"
    os.makedirs(fetched, exist_ok=True)
    shutil.rmtree(staging, ignore_errors=True)
    os.makedirs(staging)
    take(index, "torch", version, fetched, staging)
    for name, extras, wanted in list(requirements(staging, "torch")):
        if name == "cuda-toolkit":
            take(index, name, wanted, fetched, staging)
            for extra in extras if form == "cuda" else ALWAYS:
                for own, _, number in list(requirements(staging, name, extra)):
                    take(index, own, number, fetched, staging)
        elif name.startswith("nvidia-") and (form == "cuda" or any(word in name for word in ("runtime", "cupti"))):
            take(index, name, wanted, fetched, staging)
    shutil.rmtree(to, ignore_errors=True)
    os.replace(staging, to)
    shutil.rmtree(fetched, ignore_errors=True)


def take(index, package, version, fetched, staging):
    name, link, digest = choose(index, package, version)
    path = os.path.join(fetched, name)
    download(link, path, digest)
    unpack(path, staging)
    say(f"{name}: ready")


def main():
    to, version, form = sys.argv[1:]
    index = os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_DEFAULT_INDEX") or INDEX
    try:
        install(to, version, form, index)
    except Problem as problem:
        say(str(problem))
        sys.exit(1)
    except KeyboardInterrupt:
        say("stopped: run again to continue")
        sys.exit(130)


if __name__ == "__main__":
    main()
