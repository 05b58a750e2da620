"""Versions, specifiers and markers of `throstle setup`: by tables, and as the package `packaging` reads random ones.

Without `packaging` the second part says that it is skipped.
"""

import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "setup"))
from versions import Invalid, Marker, Requirement, Specifiers, Version  # noqa: E402

try:
    import packaging.markers
    import packaging.requirements
    import packaging.specifiers
    import packaging.version
except ImportError:
    packaging = None

ROUNDS = 20_000
# A specifier, versions that match, and versions that do not.
TABLE = [
    ("==13.0.96.*", "13.0.96 13.0.96.0 13.0.96.1 13.0.96.post1 13.0.96rc1", "13.0.9 13.0.960 13.0 13.1.96"),
    ("==13.0.*", "13.0 13 13.0.1 13.0.96", "13.1 1.3 130.0"),
    ("!=13.0.*", "13.1 12", "13 13.0.1 13.0.post1"),
    ("==1.0", "1 1.0 1.0.0 v1.0 1.0+cu130 0!1.0", "1.0.1 1.0.post1 1.0rc1 1!1.0"),
    ("==1.0+cu130", "1.0+cu130 1+CU130", "1.0 1.0+cu129"),
    ("!=1.0", "1.0.1 1.0.post1", "1 1.0.0 1.0+cpu"),
    ("~=2.2", "2.2 2.2.post3 2.10", "3.0 2.1 2.2rc1"),
    ("~=2.2.0", "2.2 2.2.9", "2.3 2.10"),
    ("~=2.2.post3", "2.2.post3 2.3", "2.2 3.0"),
    (">=1.7,<2", "1.7 1.7.0 1.10 1.7.post1", "1.6.9 2.0 2.0rc1 2.dev0"),
    (">1.7", "1.7.1 1.8", "1.7 1.7.0.post1 1.7+local"),
    (">1.7.post2", "1.7.post3 1.7.1", "1.7.post2 1.7.0"),
    ("<=1.7", "1.7+local 1.7rc1", "1.7.post1 1.8"),
    ("<3.1", "3.0.9 3.0.post1", "3.1 3.1.dev0 3.1rc1"),
    ("<3.1rc2", "3.1rc1 3.1.dev0", "3.1rc2 3.1"),
    ("===1.0", "1.0", "1 1.0.0"),
    (">=1!1.0", "1!1.0 1!2", "99 1.0"),
    ("<14,>=13.0.3", "13.0.3 13.9", "13.0.2 14"),
    ("", "1.0 2.0", ""),
]
ORDER = "1.0.dev1 1.0a1.dev1 1.0a1 1.0a2 1.0b1 1.0rc1 1.0 1.0+a 1.0+a.1 1.0+1 1.0.post1.dev1 1.0.post1 1.0.1 1.9 1.10 1!0.1"
INVALID = ["1.0 2", "==", "==1.0.*.1", "~=1", ">=1.0.*", ">=1.0+local", "=1.0", "1.0", "==x"]


class Table(unittest.TestCase):
    def test_specifiers_match_as_the_standard_says(self):
        for text, fitting, others in TABLE:
            specifiers = Specifiers(text)
            for version, expected in [(v, True) for v in fitting.split()] + [(v, False) for v in others.split()]:
                self.assertEqual(specifiers.matches(Version(version)), expected, f"{version} {text}")

    def test_versions_are_ordered(self):
        versions = [Version(text) for text in ORDER.split()]
        for place, low in enumerate(versions):
            for high in versions[place + 1:]:
                self.assertTrue(low < high and high > low and low != high, f"{low.text} {high.text}")

    def test_what_is_no_specifier_is_refused(self):
        for text in INVALID:
            with self.assertRaises(Invalid, msg=text):
                Specifiers(text)

    def test_pre_releases_are_chosen_only_if_asked_for_or_if_there_is_nothing_else(self):
        def choose(specifiers, versions):
            return [version.text for version in Specifiers(specifiers).choose([Version(text) for text in versions.split()])]
        self.assertEqual(choose(">=13.4", "13.4rc1 13.4 13.5rc1"), ["13.4"])
        self.assertEqual(choose(">=13.4rc1", "13.4rc1 13.4 13.5rc1"), ["13.4rc1", "13.4", "13.5rc1"])
        self.assertEqual(choose("==13.4.*", "13.4rc1 13.4rc2 13.5"), ["13.4rc1", "13.4rc2"])

    def test_requirements_and_markers_are_read(self):
        own = Requirement("cuda_toolkit[cublas, CUDART]==13.0.2; (sys_platform == 'linux' or sys_platform == \"win32\") and extra == 'All'")
        self.assertEqual((own.name, own.extras, own.versions.text), ("cuda-toolkit", ["cublas", "cudart"], "==13.0.2"))
        linux = {"sys_platform": "linux", "python_version": "3.10", "extra": "all"}
        self.assertTrue(own.applies(linux))
        self.assertFalse(own.applies({**linux, "extra": ""}))
        self.assertFalse(own.applies({**linux, "sys_platform": "darwin"}))
        self.assertTrue(Requirement("a (>=1,<2) ; python_version >= '3.9'").applies(linux), "3.10 is newer than 3.9")
        self.assertTrue(Requirement("typing-extensions").applies(linux))
        for text in ["sys_platform", "sys_platform == linux", "(sys_platform == 'linux'", "'a' ? 'b'", "unknown == 'a'"]:
            with self.assertRaises(Invalid, msg=text):
                Marker(text).holds(linux)


@unittest.skipUnless(packaging, "the package `packaging` is not installed")
class Real(unittest.TestCase):
    def setUp(self):
        self.seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
        self.random = random.Random(self.seed)

    def version(self):
        one = self.random
        text = one.choice(["", "", "", "1!", "0!"])
        text += ".".join(str(one.choice([0, 0, 1, 1, 2, 10, 13])) for _ in range(one.choice([1, 2, 2, 3, 3, 4])))
        if one.random() < 0.25:
            text += one.choice(["a", "b", "rc", ".rc", "-alpha", "c", "_beta.", "preview"]) + one.choice(["", "0", "1", "2"])
        if one.random() < 0.25:
            text += one.choice([".post", "-", "post", ".rev", "-r"]) + one.choice(["0", "1", "2"])
        if one.random() < 0.2:
            text += one.choice([".dev", "dev", "-dev"]) + one.choice(["", "0", "1"])
        if one.random() < 0.2:
            text += "+" + one.choice(["cu130", "cpu", "1", "1.2", "a.1", "cu-13"])
        return text

    def read(self, kind, error, text):
        try:
            return kind(text)
        except error:
            return None

    def both(self, own, real, error, text):
        """Both readings; both must accept or both refuse."""
        mine, theirs = self.read(own, Invalid, text), self.read(real, error, text)
        self.assertEqual(mine is None, theirs is None, f"SEED={self.seed}: {text}")
        return mine, theirs

    def test_random_versions_and_specifiers(self):
        operators = ["==", "!=", "<=", ">=", "<", ">", "~=", "==="]
        for _ in range(ROUNDS):
            texts = self.version(), self.version()
            (a, real_a), (b, real_b) = [
                self.both(Version, packaging.version.Version, packaging.version.InvalidVersion, text) for text in texts
            ]
            if a is None or b is None:
                continue
            told = f"SEED={self.seed}: {texts}"
            self.assertEqual((a < b, a == b, a > b), (real_a < real_b, real_a == real_b, real_a > real_b), told)
            specifier = self.random.choice(operators) + texts[1] + self.random.choice(["", "", ".*"])
            own, real = self.both(Specifiers, packaging.specifiers.SpecifierSet, packaging.specifiers.InvalidSpecifier, specifier)
            if own is not None:
                self.assertEqual(own.matches(a), real.contains(texts[0], prereleases=True), f"{told} {specifier}")

    def test_random_lists_choose_the_same_versions(self):
        for _ in range(ROUNDS // 4):
            parts = [self.random.choice(["==", "!=", "<=", ">=", "<", ">"]) + self.version() for _ in range(self.random.randrange(4))]
            versions = [self.version() for _ in range(6)]
            try:
                real = packaging.specifiers.SpecifierSet(",".join(parts))
                expected = list(real.filter(versions))
            except (packaging.specifiers.InvalidSpecifier, packaging.version.InvalidVersion):
                continue
            chosen = [version.text for version in Specifiers(",".join(parts)).choose([Version(text) for text in versions])]
            self.assertEqual(chosen, expected, f"SEED={self.seed}: {parts} {versions}")

    def test_random_markers(self):
        here = {**packaging.markers.default_environment(), "platform_release": "6.1.0-x", "extra": ""}
        values = [*here.values(), "3.9", "3.10", "3", "linux2", "all", "Foo_Bar", "3.12.*", "posix nt"]

        def condition(depth=0):
            draw = self.random.random()
            if depth < 3 and draw < 0.5:
                text = f"{condition(depth + 1)} {self.random.choice(['and', 'or'])} {condition(depth + 1)}"
                return f"({text})" if draw < 0.25 else text
            quote = self.random.choice("'\"")
            sides = [self.random.choice(list(here)), quote + self.random.choice(values) + quote]
            if self.random.random() < 0.2:
                sides.reverse()
            operator = self.random.choice(["==", "!=", "<", ">", "<=", ">=", "in", "not in", "~=", "==="])
            return f"{sides[0]} {operator} {sides[1]}"

        for _ in range(ROUNDS // 4):
            text, environment = condition(), {**here, "extra": self.random.choice(["", "all", "foo-bar"])}
            try:
                expected = packaging.markers.Marker(text).evaluate(environment)
            except (packaging.markers.UndefinedComparison, packaging.markers.InvalidMarker):
                continue
            self.assertEqual(Marker(text).holds(environment), expected, f"SEED={self.seed}: {text}")

    def test_requirements(self):
        lines = ["torch", "a.b_C[x,Y_z]>=1,<2", "n (>=1.0,!=1.1.*) ; python_version < '3.9'", "p@ https://example.org/y.whl ; extra == 'a'",
                 "nvidia-cublas==13.1.0.3.*; (sys_platform == 'linux') and extra == 'all'", "a>=1 ;", "a b", "", "a[x", "-a"]
        for line in lines:
            own, real = self.both(Requirement, packaging.requirements.Requirement, packaging.requirements.InvalidRequirement, line)
            if own is not None:
                names = (real.name.lower().replace("_", "-").replace(".", "-"), sorted(extra.lower().replace("_", "-") for extra in real.extras))
                self.assertEqual((own.name, sorted(own.extras)), names, line)
                self.assertEqual(packaging.specifiers.SpecifierSet(own.versions.text), real.specifier, line)


unittest.main()
