"""A package index (PEP 503 and 691): the one that pip would use, its pages, the wheels for this machine, and downloads."""

import collections
import configparser
import errno
import hashlib
import html.parser
import http.client
import json
import os
import platform
import re
import socket
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from versions import Invalid, Version, normal

PYPI = "https://pypi.org/simple"
JSON = "application/vnd.pypi.simple.v1+json"
PIECE_BYTES = 1 << 20
# Attempts in a row that bring nothing.
TRIES = 5
TIMEOUT_SECONDS = 20
# Smaller files show no progress.
SHOWN_BYTES = 10_000_000
# The glibc of the platform tags without a version.
OLD_TAGS = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class Problem(Exception):
    """An error with a message for the user."""


def say(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def pip_setting(name):
    """A setting of pip, from its environment variable or from its files."""
    value = os.environ.get(f"PIP_{name.upper()}")
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if value or chosen == os.devnull:
        return value
    home = os.path.expanduser("~")
    shared = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files = [f"{folder}/pip/pip.conf" for folder in reversed(shared.split(":"))]
    own = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files += ["/etc/pip.conf", f"{home}/.pip/pip.conf", f"{own}/pip/pip.conf", f"{sys.prefix}/pip.conf"]
    config = configparser.RawConfigParser()
    for file in files + ([chosen] if chosen else []):
        try:
            config.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            raise Problem(f"`{file}` cannot be read as settings of pip") from None
        except OSError:
            continue
    for section in ("install", "global"):
        for key in (name.replace("_", "-"), name):
            if config.has_option(section, key):
                return config.get(section, key).strip()
    return None


def certificates():
    """The certificates to trust: those of pip's settings, else of the system, else the ones that pip brings along."""
    chosen = pip_setting("cert")
    paths = ssl.get_default_verify_paths()
    if not chosen and not paths.cafile and not (paths.capath and os.listdir(paths.capath)):
        try:
            from pip._vendor import certifi
            chosen = certifi.where()
        except ImportError:
            pass
    folder = chosen if chosen and os.path.isdir(chosen) else None
    try:
        return ssl.create_default_context(cafile=None if folder else chosen, capath=folder)
    except OSError:
        raise Problem(f"`{chosen}` contains no certificates; set pip's `cert` to a file with certificates") from None


def reason(error):
    """Why a request failed, in words."""
    cause = getattr(error, "reason", error)
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers with status {error.code}"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted; set SSL_CERT_FILE to a file of trusted certificates"
    if isinstance(cause, socket.gaierror):
        return "its name is unknown; check the network, and the proxy in https_proxy"
    if isinstance(cause, (socket.timeout, TimeoutError)):
        return "it does not answer"
    if isinstance(cause, ConnectionRefusedError):
        return "it refuses connections"
    name = errno.errorcode.get(getattr(cause, "errno", None) or 0)
    return f"the connection failed ({name})" if name else "the connection failed"


def is_temporary(error):
    return not isinstance(error, urllib.error.HTTPError) or error.code in (408, 429) or error.code >= 500


def is_wrong_address(error):
    """True if another attempt would end in the same way, as far as one attempt can tell."""
    cause = getattr(error, "reason", error)
    return isinstance(cause, (socket.gaierror, socket.timeout, TimeoutError, ConnectionRefusedError, ssl.SSLError))


File = collections.namedtuple("File", "name link digest is_yanked")


class Links(html.parser.HTMLParser):
    """The files of an index that sends HTML instead of JSON."""

    def __init__(self, base):
        super().__init__()
        self.base, self.files = base, []

    def handle_starttag(self, tag, attributes):
        own = dict(attributes)
        link = own.get("href")
        if tag == "base" and link:
            self.base = urllib.parse.urljoin(self.base, link)
        if tag != "a" or not link:
            return
        path, _, fragment = link.partition("#")
        name = urllib.parse.unquote(path.partition("?")[0].rpartition("/")[2])
        digest = fragment[7:] if fragment.startswith("sha256=") else None
        self.files.append(File(name, urllib.parse.urljoin(self.base, path), digest, "data-yanked" in own))


def files_of_json(body, base):
    try:
        return [
            File(file["filename"], urllib.parse.urljoin(base, file["url"]), file["hashes"].get("sha256"), bool(file.get("yanked")))
            for file in json.loads(body)["files"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Problem(f"`{base}` is not a page of a package index") from None


def glibc():
    """The version of the C library; None if it is another one."""
    try:
        found = re.fullmatch(r"glibc (\d+)\.(\d+).*", os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (ValueError, OSError):
        return None
    return found and (int(found.group(1)), int(found.group(2)))


def fits_machine(tags, machine, libc):
    """True if one of the platform tags of a wheel names this machine."""
    for tag in tags.split("."):
        if tag in ("any", f"linux_{machine}"):
            return True
        found = re.fullmatch(r"(manylinux(?:1|2010|2014|_(\d+)_(\d+)))_(.+)", tag)
        if found and found.group(4) == machine and libc:
            needed = OLD_TAGS.get(found.group(1)) or (int(found.group(2)), int(found.group(3)))
            if needed <= libc:
                return True
    return False


class Wheel:
    """A file of an index by the parts of its name."""

    def __init__(self, file):
        parts = file.name[:-4].split("-") if file.name.endswith(".whl") else []
        if len(parts) not in (5, 6):
            raise Invalid(f"`{file.name}` is not the name of a wheel")
        self.file, self.package, self.version = file, normal(parts[0]), Version(parts[1])
        self.build = int("0" + re.match(r"\d*", parts[2] if len(parts) == 6 else "").group())
        self.python, self.abi, self.platforms = parts[-3:]

    def python_version(self):
        """Its Python, such as (3, 12); None for one that needs none of its own."""
        found = re.match(r"cp(\d)(\d+)", self.python)
        return found and (int(found.group(1)), int(found.group(2)))

    def rank(self):
        # Libraries do not depend on the Python. The one with the usual ABI is the most used.
        return self.version, not self.abi.endswith("t"), self.python_version() or (0, 0), self.build, self.file.name


class Index:
    def __init__(self, address):
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Problem("the address of the package index does not begin with `https://` or `http://`: set PIP_INDEX_URL")
        # Only the index gets its password; messages show the address without it.
        place = parts.netloc.rpartition("@")[2]
        self.address = urllib.parse.urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        handlers = [urllib.request.HTTPSHandler(context=certificates())]
        if parts.username:
            passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
            secret = [urllib.parse.unquote(text or "") for text in (parts.username, parts.password)]
            passwords.add_password(None, f"{parts.scheme}://{place}/", *secret, is_authenticated=True)
            handlers.append(urllib.request.HTTPBasicAuthHandler(passwords))
        proxy = pip_setting("proxy")
        if proxy:
            handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
        self.opener = urllib.request.build_opener(*handlers)

    def ask(self, address, **headers):
        return self.opener.open(urllib.request.Request(address, headers=headers), timeout=TIMEOUT_SECONDS)

    def files(self, package):
        """The files of a package."""
        for failed in range(1, TRIES + 1):
            try:
                with self.ask(f"{self.address}/{package}/", Accept=f"{JSON}, text/html;q=0.5") as answer:
                    kind, body, base = answer.headers.get_content_type(), answer.read(), answer.url
                break
            except (OSError, http.client.HTTPException) as error:
                if getattr(error, "code", None) == 404:
                    raise Problem(f"the package index `{self.address}` has no package `{package}`") from None
                if failed == TRIES or is_wrong_address(error) or not is_temporary(error):
                    raise Problem(f"the package index `{self.address}` cannot be read: {reason(error)}") from None
                time.sleep(failed)
        if kind == JSON:
            return files_of_json(body, base)
        links = Links(base)
        links.feed(body.decode("utf-8", "replace"))
        return links.files

    def choose(self, package, versions):
        """The newest wheel of these versions for this machine."""
        machine, libc, fits = platform.machine(), glibc(), []
        for file in self.files(package):
            try:
                wheel = Wheel(file)
            except Invalid:
                continue
            if wheel.package == package and fits_machine(wheel.platforms, machine, libc):
                # A withdrawn file is only for those who ask for exactly its version.
                if not file.is_yanked or versions.is_pinned():
                    fits.append(wheel)
        chosen = set(versions.choose([wheel.version for wheel in fits]))
        fits = [wheel for wheel in fits if wheel.version in chosen]
        if not fits:
            system = f"{machine} with glibc {libc[0]}.{libc[1]}" if libc else f"{machine} without glibc"
            raise Problem(f"the package index `{self.address}` has no wheel of {package} {versions.text} for {system}")
        best = max(fits, key=lambda wheel: (not wheel.file.is_yanked, wheel.rank()))
        if not best.file.digest:
            raise Problem(f"the package index `{self.address}` has no SHA-256 of `{best.file.name}`")
        return best

    def download(self, file, path):
        """Downloads a file, and continues where an earlier download ended."""
        if os.path.exists(path) and digest_of(path) == file.digest:
            return
        part, failed, is_resumed = f"{path}.part", 0, os.path.exists(f"{path}.part")
        while True:
            before = size(part)
            try:
                self.fetch(file.link, part)
            except (OSError, http.client.HTTPException) as error:
                # 416: the part is at least as long as the file. Its digest decides below.
                if getattr(error, "code", None) != 416:
                    failed = 1 if size(part) > before else failed + 1
                    if failed == TRIES or not is_temporary(error):
                        raise Problem(f"`{file.name}` cannot be fetched: {reason(error)}; run again to continue") from None
                    say(f"{file.name}: {reason(error)}; retrying")
                    time.sleep(failed)
                    continue
            if digest_of(part) == file.digest:
                os.replace(part, path)
                return
            os.unlink(part)
            if not is_resumed:
                raise Problem(f"`{file.name}` does not match the SHA-256 in the index: run again to fetch it again")
            # The part was of another file.
            is_resumed = False

    def fetch(self, link, part):
        have = size(part)
        progress = Progress(os.path.basename(part)[:-5])
        with self.ask(link, **({"Range": f"bytes={have}-"} if have else {})) as answer:
            resumes = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-")
            if answer.status == 206 and not resumes:
                raise http.client.HTTPException("the server sent another part than requested")
            rest = int(answer.headers.get("Content-Length") or 0)
            done = have if resumes else 0
            total = done + rest
            with writable(part, "ab" if resumes else "wb") as file:
                while True:
                    piece = answer.read(PIECE_BYTES)
                    if not piece:
                        break
                    file.write(piece)
                    done += len(piece)
                    progress.tell(done, total)
        progress.end()
        if rest and done < total:
            raise ConnectionResetError(errno.ECONNRESET, "")


class writable:
    """A file to write to: its errors are not those of the connection."""

    def __init__(self, path, mode):
        self.path = path
        try:
            self.file = open(path, mode)
        except OSError as error:
            raise Problem(f"`{path}` cannot be written: {error.strerror}") from None

    def write(self, piece):
        try:
            self.file.write(piece)
            self.file.flush()
        except OSError as error:
            raise Problem(f"`{self.path}` cannot be written: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


class Progress:
    """A progress line: updated in place on a terminal, and rarely printed elsewhere."""

    def __init__(self, name):
        self.name, self.told, self.every = name, 0.0, 0.5 if sys.stderr.isatty() else 15

    def tell(self, done, total):
        if time.monotonic() - self.told > self.every and not 0 < total < SHOWN_BYTES:
            self.told = time.monotonic()
            share = f" of {total / 1e6:.0f}" if total else ""
            line = f"{self.name}: {done / 1e6:.0f}{share} MB"
            say(f"\r{line}  " if self.every < 1 else line, end="" if self.every < 1 else "\n")

    def end(self):
        if self.every < 1:
            say("\r", end="")


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            piece = file.read(PIECE_BYTES)
            if not piece:
                return digest.hexdigest()
            digest.update(piece)
