"""`throstle setup` against a small package index of its own: resumes, checks, leaves out what no program needs."""

import hashlib
import http.server
import io
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

SETUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "throstle", "setup.py")
BIG = os.urandom(3_000_000)


def wheel(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return data.getvalue()


def torch(**more):
    metadata = "Name: torch\nRequires-Dist: filelock\nRequires-Dist: cuda-toolkit[cudart,cublas,cupti]==13.0.2; platform_system == \"Linux\"\n"
    return wheel({
        "torch/lib/libtorch_cpu.so": BIG, "torch/lib/libc10.so": b"c10", "torch/version.py": b"__version__ = '2.11.0'\n",
        "torch/nn/module.py": b"", "torch/include/ATen/x.h": b"", "torch-2.11.0.dist-info/METADATA": metadata, **more,
    })


def index(torch_wheel):
    toolkit = "Name: cuda-toolkit\n" + "".join(
        f"Requires-Dist: {name}==13.0.*; extra == \"{extra}\"\n"
        for name, extra in [("nvidia-cuda-runtime", "cudart"), ("nvidia-cuda-cupti", "cupti"), ("nvidia-cublas", "cublas")]
    )
    def helper(name, version, library):
        info = f"{name.replace('-', '_')}-{version}.dist-info/METADATA"
        return wheel({f"nvidia/cu13/lib/{library}": version.encode(), info: f"Name: {name}\n"})
    machine = "manylinux_2_28_x86_64"
    return {
        "torch": {f"torch-2.11.0-cp312-cp312-{machine}.whl": torch_wheel, "torch-2.11.0-cp312-none-macosx_11_0_arm64.whl": b"",
                  f"torch-2.10.0-cp312-cp312-{machine}.whl": b""},
        "cuda-toolkit": {"cuda_toolkit-13.0.2-py2.py3-none-any.whl": wheel({"cuda_toolkit-13.0.2.dist-info/METADATA": toolkit})},
        "nvidia-cuda-runtime": {f"nvidia_cuda_runtime-{v}-py3-none-{machine}.whl": helper("nvidia-cuda-runtime", v, "libcudart.so.13") for v in ("13.0.9", "13.0.48", "13.1.0")},
        "nvidia-cuda-cupti": {f"nvidia_cuda_cupti-13.0.48-py3-none-{machine}.whl": helper("nvidia-cuda-cupti", "13.0.48", "libcupti.so.13")},
        "nvidia-cublas": {f"nvidia_cublas-13.0.1-py3-none-{machine}.whl": helper("nvidia-cublas", "13.0.1", "libcublas.so.13")},
    }


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        parts = self.path.strip("/").split("/")
        if parts[0] == "simple" and parts[1] in server.packages:
            links = "".join(
                f'<a href="../../files/{name}#sha256={server.digests.get(name) or hashlib.sha256(data).hexdigest()}">{name}</a>'
                for name, data in server.packages[parts[1]].items()
            )
            return self.answer(200, links.encode(), "text/html")
        every = {name: data for files in server.packages.values() for name, data in files.items()}
        if parts[0] != "files" or parts[1] not in every:
            return self.answer(404, b"", "text/plain")
        data, asked = every[parts[1]], self.headers.get("Range")
        server.asked.append((parts[1], asked))
        begin = int(asked[6:-1]) if asked else 0
        if begin >= len(data):
            return self.answer(416, b"", "text/plain")
        cut = server.cuts.pop() if server.cuts and len(data) > 1_000_000 else None
        return self.answer(206 if asked else 200, data[begin:], "application/zip", cut)

    def answer(self, status, body, kind, cut=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        self.close_connection = True


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.to = os.path.join(self.folder.name, "torch")
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.packages, self.server.cuts, self.server.asked, self.server.digests = index(torch()), [], [], {}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def run_setup(self, form="cpu"):
        address = f"http://127.0.0.1:{self.server.server_address[1]}/simple"
        environment = {**os.environ, "PIP_INDEX_URL": address, "no_proxy": "*"}
        return subprocess.run([sys.executable, SETUP, self.to, "2.11.0", form], env=environment, capture_output=True, text=True)

    def files(self):
        found = [os.path.relpath(os.path.join(folder, name), self.to) for folder, _, names in os.walk(self.to) for name in names]
        return sorted(name for name in found if "dist-info" not in name)

    def test_a_processor_gets_the_libraries_that_it_loads(self):
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files(), [
            "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcupti.so.13",
            "torch/lib/libc10.so", "torch/lib/libtorch_cpu.so", "torch/version.py",
        ])
        with open(f"{self.to}/nvidia/cu13/lib/libcudart.so.13") as file:
            self.assertEqual(file.read(), "13.0.48", "the newest of 13.0")
        self.assertEqual(os.listdir(self.folder.name), ["torch"], "nothing else is left")

    def test_a_gpu_gets_all_of_them(self):
        self.assertEqual(self.run_setup("cuda").returncode, 0)
        self.assertIn("nvidia/cu13/lib/libcublas.so.13", self.files())

    def test_a_download_goes_on_where_it_ended(self):
        self.server.cuts = [1_000_000, 1_500_000]
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        ranges = [asked for name, asked in self.server.asked if name.startswith("torch-")]
        self.assertEqual(ranges, [None, "bytes=1500000-", "bytes=2500000-"])
        with open(f"{self.to}/torch/lib/libtorch_cpu.so", "rb") as file:
            self.assertEqual(file.read(), BIG)

    def test_another_digest_is_refused_and_fetched_anew(self):
        name = next(iter(self.server.packages["torch"]))
        self.server.digests[name] = "0" * 64
        done = self.run_setup()
        self.assertEqual((done.returncode, os.path.exists(self.to)), (1, False))
        self.assertIn("does not match the SHA-256 in the index", done.stderr)
        self.server.digests.clear()
        self.assertEqual(self.run_setup().returncode, 0)

    def test_a_wheel_writes_nowhere_else(self):
        self.server.packages = index(torch(**{"../../torch/lib/evil.so": b"x"}))
        done = self.run_setup()
        self.assertEqual((done.returncode, os.path.exists(self.to)), (1, False))
        self.assertIn("outside its folder", done.stderr)

    def test_what_the_index_lacks_is_told(self):
        del self.server.packages["nvidia-cuda-cupti"]
        done = self.run_setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("the package index", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


unittest.main()
