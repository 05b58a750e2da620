"""Versions, specifiers of versions, requirements and their markers (PEP 440 and PEP 508).

A bare environment may lack the package `packaging`, so this is a small part of it with the same results.
"""

import functools
import re

VERSION = re.compile(
    r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_number>\d+)?)?"
    r"(?:-(?P<implicit_post>\d+)|(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>\d+)?))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d+)?)?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE | re.ASCII,
)
SPECIFIER = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s,;)]+)\s*")
PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
NUMBER = r"0|[1-9]\d*"


class Invalid(ValueError):
    """A text that is no version, specifier, requirement or marker."""


@functools.total_ordering
class Version:
    def __init__(self, text):
        found = VERSION.fullmatch(text)
        if not found:
            raise Invalid(f"`{text}` is not a version")
        part = found.groupdict()
        pre = (part["pre"] or "").lower()
        self.text = text.strip()
        self.epoch = int(part["epoch"] or 0)
        self.release = tuple(int(number) for number in part["release"].split("."))
        self.pre = (PRE.get(pre, pre), int(part["pre_number"] or 0)) if pre else None
        has_post = part["post"] or part["implicit_post"]
        self.post = int(part["post_number"] or part["implicit_post"] or 0) if has_post else None
        self.dev = int(part["dev_number"] or 0) if part["dev"] else None
        local = re.split(r"[-_.]", part["local"].lower()) if part["local"] else []
        self.local = tuple((1, int(word), "") if word.isdigit() else (0, 0, word) for word in local)

    def base(self):
        """The epoch and the release without zeros at its end."""
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        return self.epoch, release

    def public(self):
        """The key of the order without the local part."""
        if self.pre:
            pre = (1, *self.pre)
        else:
            # 1.0.dev1 comes before 1.0a1, and 1.0 after it.
            pre = (0,) if self.post is None and self.dev is not None else (2,)
        post = -1 if self.post is None else self.post
        dev = (1, 0) if self.dev is None else (0, self.dev)
        return self.base(), pre, post, dev

    def first_pre(self):
        """The key of its first pre-release, or of itself if it is one."""
        if self.is_pre():
            return self.public()
        base, pre, post, _ = self.public()
        return base, (0,) if self.post is None else pre, post, (0, 0)

    def is_pre(self):
        return self.pre is not None or self.dev is not None

    def parts(self):
        """Release numbers, then the suffixes, as a prefix is compared."""
        suffixes = []
        if self.pre:
            suffixes.append(self.pre)
        if self.post is not None:
            suffixes.append(("post", self.post))
        if self.dev is not None:
            suffixes.append(("dev", self.dev))
        return suffixes

    def has_prefix(self, epoch, release, suffixes=()):
        """Compares the beginning; a shorter release continues with zeros."""
        own = self.release + (0,) * (len(release) - len(self.release))
        if self.epoch != epoch or own[: len(release)] != release:
            return False
        return not suffixes or (own == release and self.parts()[: len(suffixes)] == list(suffixes))

    def __eq__(self, other):
        return (self.public(), self.local) == (other.public(), other.local)

    def __lt__(self, other):
        return (self.public(), self.local) < (other.public(), other.local)

    def __hash__(self):
        return hash((self.public(), self.local))


class Specifier:
    """One comparison, such as `==13.0.*`."""

    def __init__(self, operator, text):
        self.operator, self.text = operator, text
        if operator == "===":
            self.version = None
            return
        self.is_prefix = text.endswith(".*") and operator in ("==", "!=")
        self.version = Version(text[:-2] if self.is_prefix else text)
        version = self.version
        is_plain = not version.local and (not self.is_prefix or not version.parts())
        if operator in ("==", "!=") and not self.is_prefix:
            is_plain = True
        if not is_plain or (operator == "~=" and len(version.release) < 2):
            raise Invalid(f"`{operator}{text}` is not a comparison of versions")

    def allows_pre(self):
        """True if the version that it names is a pre-release."""
        if self.operator == "===":
            try:
                return Version(self.text).is_pre()
            except Invalid:
                return False
        return self.operator != "!=" and self.version.is_pre()

    def matches(self, version):
        if self.operator == "===":
            return version.text.lower() == self.text.lower()
        wanted = self.version
        if self.operator in ("==", "!="):
            return self.equals(version) == (self.operator == "==")
        if self.operator == "<=":
            return version.public() <= wanted.public()
        if self.operator == ">=":
            return version.public() >= wanted.public()
        if self.operator == "~=":
            return version.public() >= wanted.public() and version.has_prefix(wanted.epoch, wanted.release[:-1])
        if self.operator == "<":
            # Nor a pre-release of the version that it names.
            return version.public() < wanted.first_pre()
        is_post_release = version.post is not None and version.public()[:2] == wanted.public()[:2]
        return version.public() > wanted.public() and (not is_post_release or wanted.post is not None or wanted.dev is not None)

    def matches_text(self, text):
        """False for a text that is no version, such as the release of a kernel."""
        try:
            return self.matches(Version(text))
        except Invalid:
            return self.operator == "===" and text.lower() == self.text.lower()

    def equals(self, version):
        wanted = self.version
        if self.is_prefix:
            return version.has_prefix(wanted.epoch, wanted.release)
        return version.public() == wanted.public() and (not wanted.local or version.local == wanted.local)


class Specifiers:
    """A list of comparisons that must all hold: `>=1.2,!=1.3.*`. An empty list takes every version."""

    def __init__(self, text):
        self.text, self.all = text.strip(), []
        for one in self.text.split(",") if self.text else []:
            found = SPECIFIER.fullmatch(one)
            if found:
                self.all.append(Specifier(*found.groups()))
            elif one.strip():
                raise Invalid(f"`{one.strip()}` is not a comparison of versions")

    def matches(self, version):
        return all(one.matches(version) for one in self.all)

    def is_pinned(self):
        return any(one.operator == "===" or (one.operator == "==" and not one.is_prefix) for one in self.all)

    def choose(self, versions):
        """The versions that match; pre-releases only if they are asked for, or if nothing else matches."""
        fits = [version for version in versions if self.matches(version)]
        if any(one.allows_pre() for one in self.all):
            return fits
        return [version for version in fits if not version.is_pre()] or fits


class Requirement:
    """A line `name[extra] >=1.0; marker`."""

    LINE = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*([^;@]*?)\s*(@[^;]*)?(?:;(.*))?", re.DOTALL)

    def __init__(self, line):
        found = self.LINE.fullmatch(line)
        if not found:
            raise Invalid(f"`{line.strip()}` is not a requirement")
        name, extras, versions, self.address, marker = found.groups()
        if versions.startswith("(") and versions.endswith(")"):
            versions = versions[1:-1]
        self.name = normal(name)
        self.extras = [normal(extra.strip()) for extra in (extras or "").split(",") if extra.strip()]
        self.versions = Specifiers(versions)
        self.marker = None if marker is None else Marker(marker)

    def applies(self, environment):
        return self.marker is None or self.marker.holds(environment)


def normal(name):
    """The name of a package as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Marker:
    """A condition such as `sys_platform == 'linux' and extra == 'all'`."""

    TOKEN = re.compile(r"\s*(\(|\)|===|==|~=|!=|<=|>=|<|>|'[^']*'|\"[^\"]*\"|[a-z_.]+)")
    VERSIONS = ("python_version", "python_full_version", "implementation_version", "platform_release")

    def __init__(self, text):
        self.text, self.tokens, at = text.strip(), [], 0
        text = text.rstrip()
        while at < len(text):
            found = self.TOKEN.match(text, at)
            if not found:
                raise self.invalid()
            self.tokens.append(found.group(1))
            at = found.end()
        if not self.tokens:
            raise self.invalid()

    def invalid(self):
        return Invalid(f"`{self.text}` is not a marker")

    def holds(self, environment):
        rest = list(self.tokens)
        value = self.any_of(rest, environment)
        if rest:
            raise self.invalid()
        return value

    def any_of(self, rest, environment):
        value = self.all_of(rest, environment)
        while rest and rest[0] == "or":
            rest.pop(0)
            # Both sides are read, so that the tokens are used up.
            value = self.all_of(rest, environment) or value
        return value

    def all_of(self, rest, environment):
        value = self.one(rest, environment)
        while rest and rest[0] == "and":
            rest.pop(0)
            value = self.one(rest, environment) and value
        return value

    def next(self, rest):
        if not rest:
            raise self.invalid()
        return rest.pop(0)

    def one(self, rest, environment):
        first = self.next(rest)
        if first == "(":
            value = self.any_of(rest, environment)
            if self.next(rest) != ")":
                raise self.invalid()
            return value
        operator = self.next(rest)
        if operator == "not":
            operator = f"not {self.next(rest)}"
        return self.compare(first, operator, self.next(rest), environment)

    def compare(self, left, operator, right, environment):
        names = [token for token in (left, right) if token[0] not in "'\""]
        values = []
        for token in (left, right):
            if token[0] in "'\"":
                values.append(token[1:-1])
            elif token in environment:
                values.append(environment[token])
            else:
                raise self.invalid()
        left, right = values
        if "extra" in names:
            left, right = normal(left), normal(right)
        elif any(name in self.VERSIONS for name in names) and operator not in ("in", "not in"):
            try:
                specifier = Specifier(operator, right)
            except Invalid:
                specifier = None
            if specifier:
                return specifier.matches_text(left)
        compared = {
            "in": left in right, "not in": left not in right, "==": left == right, "!=": left != right,
            "<=": left == right, ">=": left == right, "<": False, ">": False,
        }
        if operator not in compared:
            raise self.invalid()
        return compared[operator]
