"""The wheel in a bare virtual environment: without torch, with one that does not fit, and with the right one.

    python3 wheel.py WHEEL [TORCH]

TORCH is a folder with the package `torch` of the right release, which is linked into the environment.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv

WHEEL = os.path.abspath(sys.argv.pop(1))
TORCH = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else None

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

    def throstle(self, *arguments, **more):
        environment = {"PATH": os.environ["PATH"], "HOME": self.home, **more}
        program = os.path.join(self.environment, "bin", "throstle")
        return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, cwd=self.folder.name)

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

    @unittest.skipUnless(TORCH, "no torch is given")
    def test_the_torch_of_the_environment_is_found_by_the_engine_and_by_the_run_path(self):
        os.symlink(TORCH, self.torch)
        told = self.throstle("doctor").stdout
        self.assertIn("libtorch: ", told)
        self.assertNotIn("missing  libtorch", told)
        self.assertNotIn("wrong    libtorch", told)
        worker = os.path.join(self.site, "throstle", "bin", "throstle-torch")
        checked = subprocess.run([worker, "check"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    @unittest.skipUnless(TORCH, "no torch is given")
    def test_the_private_copy_serves_an_environment_without_torch(self):
        private = os.path.join(self.home, ".local/share/throstle/torch-2.11.0")
        os.makedirs(private)
        os.symlink(TORCH, os.path.join(private, "torch"))
        told = self.throstle("doctor").stdout
        shutil.rmtree(self.home)
        self.assertNotIn("missing  libtorch", told)
        self.assertNotIn("wrong    libtorch", told)


unittest.main()
