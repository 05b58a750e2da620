"""The wheel in a bare virtual environment: without torch, with one that does not fit, and with the right one.

    python3 wheel.py WHEEL [TORCH]

The right one is that which `throstle setup` fetches from the package index (0.6 GB). Where no index is reachable, it
is TORCH, a folder with the package `torch` of the right release.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import venv

WHEEL = os.path.abspath(sys.argv.pop(1))
TORCH = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else None

RELEASE = "2.11.0"
DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "pipelines", "demo")
# Of the environment, what reaches the index as pip does.
NETWORK = ("PIP_", "SSL_CERT_", "XDG_CONFIG_", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY")

MANIFEST = """
[pipeline]
name = "wheel"

[stage.count]
use = "python.all"
script = "count.py"
function = "count"
outputs = { n = "number" }
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.environment = os.path.join(cls.folder.name, "env")
        venv.create(cls.environment, with_pip=True)
        cls.python = os.path.join(cls.environment, "bin", "python")
        subprocess.run([cls.python, "-m", "pip", "install", "--quiet", "--no-index", WHEEL], check=True)
        found = subprocess.run([cls.python, "-c", "import throstle; print(throstle.__path__[0])"], check=True, capture_output=True, text=True)
        cls.site = os.path.dirname(found.stdout.strip())
        cls.fetch()

    @classmethod
    def fetch(cls):
        """Runs `throstle setup` into a new home, from a folder with a file that has the name of a standard module."""
        home, trap = os.path.join(cls.folder.name, "fetched"), os.path.join(cls.folder.name, "trap")
        os.makedirs(trap)
        with open(os.path.join(trap, "json.py"), "w") as file:
            file.write("raise SystemExit('a file of the current folder was run')")
        # The settings of pip may lie in the real home folder.
        own = {"PIP_CONFIG_FILE": os.path.expanduser("~/.config/pip/pip.conf")}
        own.update({name: value for name, value in os.environ.items() if name.startswith(NETWORK)})
        begun = time.monotonic()
        cls.setup = cls.run_program("setup", "--cpu", home=home, cwd=trap, **own)
        cls.torch_of_index = os.path.join(home, ".local/share/throstle", f"torch-{RELEASE}", "torch")
        cls.home_of_index = home
        cls.is_reachable = "cannot be read" not in cls.setup.stderr
        if cls.is_reachable:
            print(f"`throstle setup` took {time.monotonic() - begun:.0f} s", file=sys.stderr)
        cls.torch_to_use = cls.torch_of_index if cls.setup.returncode == 0 else TORCH

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.torch = os.path.join(self.site, "torch")
        self.home = os.path.join(self.folder.name, "home")

    def tearDown(self):
        if os.path.islink(self.torch):
            os.unlink(self.torch)
        shutil.rmtree(self.torch, ignore_errors=True)

    @classmethod
    def run_program(cls, *arguments, home, cwd, **more):
        environment = {"PATH": os.environ["PATH"], "HOME": home, **more}
        program = os.path.join(cls.environment, "bin", "throstle")
        return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, cwd=cwd)

    def throstle(self, *arguments, **more):
        return self.run_program(*arguments, home=self.home, cwd=self.folder.name, **more)

    def the_torch(self):
        """The package `torch` of the right release."""
        if not self.torch_to_use:
            self.skipTest("no package index is reachable, and no torch is given")
        return self.torch_to_use

    def test_setup_fetches_libtorch_from_the_index_and_the_demo_runs_with_it(self):
        if not self.is_reachable:
            self.skipTest(f"no package index is reachable: {self.setup.stderr.strip()}")
        self.assertEqual(self.setup.returncode, 0, self.setup.stderr)
        self.assertIn("ready: `throstle doctor` checks the worker", self.setup.stderr)
        again = self.run_program("setup", "--cpu", home=self.home_of_index, cwd=self.folder.name)
        self.assertIn(f"torch {RELEASE} is already in", again.stderr)
        demo = os.path.join(self.folder.name, "demo")
        shutil.copytree(DEMO, demo, ignore=shutil.ignore_patterns("out", ".throstle"))
        done = self.run_program("run", "demo/vits.toml", home=self.home_of_index, cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.listdir(os.path.join(demo, "out", "vits")))

    def test_the_environment_is_in_order(self):
        self.assertEqual(self.throstle("--version").returncode, 0)
        done = subprocess.run([self.python, "-m", "pip", "check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_pipeline_without_libtorch_runs_and_is_read(self):
        for name, text in [("pipeline.toml", MANIFEST), ("count.py", "def count(items):\n    return {'n': 7}\n")]:
            with open(os.path.join(self.folder.name, name), "w") as file:
                file.write(text)
        done = self.throstle("run", ".")
        self.assertEqual(done.returncode, 0, done.stderr)
        code = "import throstle; print(throstle.open('.')['count'][0]['value'])"
        read = subprocess.run([self.python, "-c", code], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(read.stdout.strip(), "7.0", read.stderr)

    def test_without_torch_the_worker_says_how_to_get_it(self):
        told = self.throstle("doctor").stdout
        self.assertIn("torch 2.11.0, which the worker needs, was not found; `throstle setup` fetches", told)

    def test_another_torch_is_named(self):
        os.makedirs(os.path.join(self.torch, "lib"))
        with open(os.path.join(self.torch, "version.py"), "w") as file:
            file.write("__version__ = '2.9.1+cu128'\n")
        told = self.throstle("doctor").stdout
        self.assertIn("is torch 2.9.1, and the worker needs torch 2.11.0", told)

    def test_the_torch_of_the_environment_is_found_by_the_engine_and_by_the_run_path(self):
        os.symlink(self.the_torch(), self.torch)
        told = self.throstle("doctor").stdout
        self.assertIn("libtorch: ", told)
        self.assertNotIn("missing  libtorch", told)
        self.assertNotIn("wrong    libtorch", told)
        worker = os.path.join(self.site, "throstle", "bin", "throstle-torch")
        checked = subprocess.run([worker, "check"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_private_copy_serves_an_environment_without_torch(self):
        torch = self.the_torch()
        private = os.path.join(self.home, ".local/share/throstle/torch-2.11.0")
        os.makedirs(private)
        os.symlink(torch, os.path.join(private, "torch"))
        told = self.throstle("doctor").stdout
        shutil.rmtree(self.home)
        self.assertNotIn("missing  libtorch", told)
        self.assertNotIn("wrong    libtorch", told)


unittest.main()
