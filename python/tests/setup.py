"""`throstle setup` against a small package index of its own: resumes, checks, leaves out what no program needs.

Names, versions and requirements are those of the real index. `wheel.py` runs it against the real one.
"""

import base64
import concurrent.futures
import fcntl
import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

SETUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "setup", "setup.py")
BIG = os.urandom(3_000_000)


def wheel(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return data.getvalue()


def torch(**more):
    metadata = (
        "Name: torch\nRequires-Dist: filelock\nRequires-Dist: nvidia-cudnn-cu13==9.19.0.56; platform_system == \"Linux\"\n"
        "Requires-Dist: cuda-toolkit[cublas,cudart,cupti]==13.0.2; platform_system == \"Linux\"\n"
        "Requires-Dist: nvidia-nothing==1; platform_system == \"Windows\"\n\nRequires-Dist: nvidia-text==1\n"
    )
    return wheel({
        "torch/lib/libtorch_cpu.so": BIG, "torch/lib/libc10.so": b"c10", "torch/version.py": b"__version__ = '2.11.0'\n",
        "torch/lib/libtorch_cuda.so": b"cuda", "torch/lib/libtorch_python.so": b"python",
        "torch/nn/module.py": b"", "torch/include/ATen/x.h": b"", "torch-2.11.0.dist-info/METADATA": metadata, **more,
    })


def index(torch_wheel):
    exact = [("nvidia-cuda-runtime", "cudart", "13.0.96"), ("nvidia-cuda-cupti", "cupti", "13.0.85"), ("nvidia-cublas", "cublas", "13.1.0.3")]
    toolkit = "Name: cuda-toolkit\n" + "".join(
        f"Requires-Dist: {name}=={version}.*; (sys_platform == 'linux' or sys_platform == 'win32') and extra == '{extra}'\n"
        for name, extra, version in exact
    )
    def helper(name, library, versions, tag="manylinux2014_x86_64.manylinux_2_17_x86_64"):
        def data(version):
            info = f"{name.replace('-', '_')}-{version}.dist-info/METADATA"
            return wheel({f"nvidia/cu13/lib/{library}": version.encode(), info: f"Name: {name}\n"})
        return {f"{name.replace('-', '_')}-{version}-py3-none-{tag}.whl": data(version) for version in versions.split()}
    machine = "manylinux_2_28_x86_64"
    return {
        "torch": {f"torch-2.11.0-cp312-cp312-{machine}.whl": torch_wheel, f"torch-2.11.0-cp313-cp313t-{machine}.whl": b"",
                  "torch-2.11.0-cp314-cp314-macosx_11_0_arm64.whl": b"", "torch-2.11.0-cp314-cp314-manylinux_2_99_x86_64.whl": b"",
                  "torch-2.11.0-cp314-cp314-musllinux_1_2_x86_64.whl": b"", f"torch-2.10.0-cp312-cp312-{machine}.whl": b"",
                  f"torch-2.11.0.post1-cp312-cp312-{machine}.whl": b"", f"torch_vision-2.11.0-cp314-cp314-{machine}.whl": b""},
        "cuda-toolkit": {"cuda_toolkit-13.0.2-py2.py3-none-any.whl": wheel({"cuda_toolkit-13.0.2.dist-info/METADATA": toolkit}),
                         "cuda_toolkit-13.0.2.tar.gz": b"", "cuda_toolkit-13.0.3.0-py2.py3-none-any.whl": b""},
        "nvidia-cuda-runtime": {**helper("nvidia-cuda-runtime", "libcudart.so.13", "13.0.48 13.0.96 13.4.46rc1 13.5.37"),
                                **helper("nvidia-cuda-runtime", "libcudart.so.13", "13.0.96.1", "manylinux2014_aarch64")},
        "nvidia-cuda-cupti": helper("nvidia-cuda-cupti", "libcupti.so.13", "13.0.48 13.0.85 13.0.850", "manylinux_2_25_x86_64"),
        "nvidia-cublas": helper("nvidia-cublas", "libcublas.so.13", "13.1.0.3 13.10.0.20"),
        "nvidia-cudnn-cu13": helper("nvidia-cudnn-cu13", "libcudnn.so.9", "9.19.0.56 9.20.0.1"),
    }


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        parts = self.path.strip("/").split("/")
        if parts[0] == "private":
            if self.headers.get("Authorization") != f"Basic {base64.b64encode(b'me:pass word').decode()}":
                return self.answer(401, b"", "text/plain")
            parts = parts[1:]
        if server.failures and parts[0] == "simple":
            return self.answer(server.failures.pop(), b"", "text/plain")
        if parts[0] == "simple" and parts[1] in server.packages:
            return self.page(server.packages[parts[1]])
        every = {name: data for files in server.packages.values() for name, data in files.items()}
        if parts[0] != "files" or parts[1] not in every:
            return self.answer(404, b"", "text/plain")
        data, asked = every[parts[1]], self.headers.get("Range")
        server.asked.append((parts[1], asked))
        begin = int(asked[6:-1]) if asked else 0
        if begin >= len(data):
            return self.answer(416, b"", "text/plain")
        cut = server.cuts.pop() if server.cuts and len(data) > 1_000_000 else None
        self.answer(206 if asked else 200, data[begin:], "application/zip", cut, asked and f"bytes {begin}-{len(data) - 1}/{len(data)}")

    def page(self, files):
        server = self.server
        digests = {name: server.digests.get(name) or hashlib.sha256(data).hexdigest() for name, data in files.items()}
        if server.is_json:
            listed = [{"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": digests[name]}, "yanked": name in server.yanked and "broken"} for name in files]
            return self.answer(200, json.dumps({"meta": {"api-version": "1.4"}, "files": listed}).encode(), "application/vnd.pypi.simple.v1+json")
        links = "".join(
            f'<a href="../../files/{name}#sha256={digests[name]}"{" data-yanked" if name in server.yanked else ""}>{name}</a>' for name in files
        )
        self.answer(200, links.encode(), "text/html")

    def answer(self, status, body, kind, cut=None, part=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if part:
            self.send_header("Content-Range", part)
        self.end_headers()
        self.wfile.write(body[:cut])
        self.close_connection = True


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.home = tempfile.TemporaryDirectory()
        self.to = os.path.join(self.folder.name, "torch")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.packages, self.server.is_json = index(torch()), True
        self.server.cuts, self.server.asked, self.server.digests, self.server.yanked, self.server.failures = [], [], {}, [], []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.place = f"127.0.0.1:{self.server.server_address[1]}"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()
        self.home.cleanup()

    def run_setup(self, form="cpu", **environment):
        own = {"PATH": os.environ["PATH"], "HOME": self.home.name, "no_proxy": "*", "PIP_INDEX_URL": f"http://{self.place}/simple", **environment}
        return subprocess.run([sys.executable, "-B", SETUP, self.to, "2.11.0", form], env=own, capture_output=True, text=True)

    def files(self):
        found = [os.path.relpath(os.path.join(folder, name), self.to) for folder, _, names in os.walk(self.to) for name in names]
        return sorted(name for name in found if "dist-info" not in name)

    def version_of(self, library):
        with open(f"{self.to}/nvidia/cu13/lib/{library}") as file:
            return file.read()

    def test_a_processor_gets_the_libraries_that_it_loads(self):
        for self.server.is_json in (True, False):
            done = self.run_setup()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.files(), [
                "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcupti.so.13",
                "torch/lib/libc10.so", "torch/lib/libtorch_cpu.so", "torch/version.py",
            ])
            self.assertEqual((self.version_of("libcudart.so.13"), self.version_of("libcupti.so.13")), ("13.0.96", "13.0.85"))
            self.assertEqual(os.listdir(self.folder.name), ["torch"], "nothing else is left")

    def test_a_gpu_gets_all_of_them(self):
        done = self.run_setup("cuda")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess({"nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/lib/libcudnn.so.9", "torch/lib/libtorch_cuda.so"}, set(self.files()))
        self.assertEqual((self.version_of("libcublas.so.13"), self.version_of("libcudnn.so.9")), ("13.1.0.3", "9.19.0.56"))

    def test_a_player_gets_its_library_alone(self):
        files = {"onnxruntime/capi/libonnxruntime.so.2.11.0": BIG, "onnxruntime/capi/libonnxruntime_providers_shared.so": b"",
                 "onnxruntime/capi/onnxruntime_pybind11_state.so": b"", "onnxruntime/LICENSE": b"MIT", "onnxruntime/__init__.py": b""}
        name = "onnxruntime-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl"
        self.server.packages["onnxruntime"] = {name: wheel(files), "onnxruntime-2.12.0-cp312-cp312-manylinux_2_28_x86_64.whl": b""}
        self.server.digests[name] = "0" * 64
        self.assertEqual(self.run_setup("player").returncode, 1)
        self.server.digests.clear()
        done = self.run_setup("player")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files(), ["onnxruntime/LICENSE", "onnxruntime/capi/libonnxruntime.so.2.11.0"])
        self.assertNotIn("torch", " ".join(name for name, _ in self.server.asked), "nothing of torch is fetched")

    def test_a_withdrawn_file_is_only_for_an_exact_version(self):
        self.server.yanked = ["nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", "cuda_toolkit-13.0.2-py2.py3-none-any.whl"]
        for self.server.is_json in (True, False):
            done = self.run_setup()
            self.assertEqual(done.returncode, 1)
            self.assertIn("cuda_toolkit-13.0.2-py2.py3-none-any.whl: ready", done.stderr)
            self.assertIn("has no wheel of nvidia-cuda-runtime ==13.0.96.* for x86_64 with glibc ", done.stderr)

    def test_a_download_goes_on_where_it_ended(self):
        self.server.cuts = [1_000_000, 1_500_000]
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        ranges = [asked for name, asked in self.server.asked if name.startswith("torch-")]
        self.assertEqual(ranges, [None, "bytes=1500000-", "bytes=2500000-"])
        with open(f"{self.to}/torch/lib/libtorch_cpu.so", "rb") as file:
            self.assertEqual(file.read(), BIG)

    def test_the_beginning_of_another_file_is_fetched_anew(self):
        os.makedirs(f"{self.to}.wheels")
        for length in (1000, 9_000_000):
            with open(f"{self.to}.wheels/torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl.part", "wb") as file:
                file.write(b"x" * length)
            done = self.run_setup()
            self.assertEqual(done.returncode, 0, done.stderr)
            os.makedirs(f"{self.to}.wheels")

    def test_another_digest_is_refused_and_fetched_anew(self):
        name = next(iter(self.server.packages["torch"]))
        self.server.digests[name] = "0" * 64
        done = self.run_setup()
        self.assertEqual((done.returncode, os.path.exists(self.to)), (1, False))
        self.assertIn("does not match the SHA-256 in the index", done.stderr)
        self.server.digests.clear()
        self.assertEqual(self.run_setup().returncode, 0)

    def test_the_index_of_pip_is_asked(self):
        os.makedirs(f"{self.home.name}/.config/pip")
        with open(f"{self.home.name}/.config/pip/pip.conf", "w") as file:
            file.write(f"[global]\nindex-url = http://{self.place}/simple/\n")
        done = self.run_setup(PIP_INDEX_URL="")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_index_gets_its_password_and_no_message_has_it(self):
        done = self.run_setup(PIP_INDEX_URL=f"http://me:pass%20word@{self.place}/private/simple")
        self.assertNotIn("pass", done.stderr)
        # The files are beside, where no password is asked for.
        self.assertIn("ready", done.stderr)
        done = self.run_setup(PIP_INDEX_URL=f"http://me:wrong@{self.place}/private/simple")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"the package index `http://{self.place}/private/simple` cannot be read: it answers with status 401", done.stderr)

    def test_a_busy_index_is_asked_again(self):
        self.server.failures = [503, 429]
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_second_process_waits_for_the_first(self):
        os.makedirs(f"{self.to}.wheels")
        lock = os.open(f"{self.to}.wheels", os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.makedirs(self.to)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(self.run_setup)
            self.assertRaises(concurrent.futures.TimeoutError, waiting.result, timeout=1)
            os.close(lock)
            done = waiting.result()
        self.assertEqual((done.returncode, self.server.asked), (0, []), "the first one has done it")
        self.assertIn("waiting for another `throstle setup` to finish", done.stderr)

    def test_a_wheel_writes_nowhere_else(self):
        self.server.packages = index(torch(**{"../../torch/lib/evil.so": b"x"}))
        done = self.run_setup()
        self.assertEqual((done.returncode, os.path.exists(self.to)), (1, False))
        self.assertIn("outside its folder", done.stderr)

    def test_what_the_index_lacks_is_told(self):
        del self.server.packages["nvidia-cuda-cupti"]
        done = self.run_setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no package `nvidia-cuda-cupti`", done.stderr)

    def test_what_cannot_be_read_is_told_in_words(self):
        self.server.packages["cuda-toolkit"] = {"cuda_toolkit-13.0.2-py2.py3-none-any.whl": b"no wheel"}
        self.assertIn("`cuda_toolkit-13.0.2-py2.py3-none-any.whl` is not a wheel that can be read", self.run_setup().stderr)
        for address, words in [
            ("index.example/simple", "does not begin with `https://`"),
            ("http://127.0.0.1:1/simple", "it refuses connections"),
            (f"https://{self.place}/simple", "cannot be read"),
            ("http://no-such-host.invalid/simple", "cannot be read"),
        ]:
            done = self.run_setup(PIP_INDEX_URL=address)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            for text in ["Traceback", "urlopen", "Errno"]:
                self.assertNotIn(text, done.stderr)


unittest.main()
