import json, sys

try:
    import onnxruntime
except ImportError:
    sys.exit(3)
import numpy

options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feeds = {given["name"]: numpy.array(given["value"], given["type"]) for given in json.loads(sys.argv[2])}
samples = session.run(None, feeds)[0]
if not samples.size or not numpy.isfinite(samples).all():
    sys.exit("its output is empty, or not a number")
print(f"onnxruntime {onnxruntime.__version__}")
