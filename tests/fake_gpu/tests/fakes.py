# SPDX-License-Identifier: Apache-2.0
# tests/fake_gpu/tests/fakes.py: runs the yoke command on the fakes, for tests of what happens when a driver fails.
import os
import re
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DRIVER_DEF = HERE.parents[2] / "plugins/gpu/driver.def"
SECONDS = 120  # the limit of one run; a run takes less than a second, but sanitizers and a busy machine are slow


class Fakes:
    def __init__(self, folder, yoke, vendor):
        self.yoke, self.vendor = yoke, vendor
        self.folder = Path(tempfile.mkdtemp(prefix="fake_gpu_"))
        self.report, self.calls = self.folder / "report", self.folder / "calls"
        self.variables = {
            "YOKE_CUDA_LIBRARY": f"{folder}/cuda/libcuda.so.1", "YOKE_NVRTC_LIBRARY": f"{folder}/cuda/libnvrtc.so.13",
            "YOKE_HIP_LIBRARY": f"{folder}/hip/libamdhip64.so.5", "YOKE_HIPRTC_LIBRARY": f"{folder}/hip/libamdhip64.so.5",
            "YOKE_CUBLASLT_LIBRARY": f"{folder}/cuda/libcuda.so.1", "YOKE_HIPBLASLT_LIBRARY": f"{folder}/hip/libamdhip64.so.5",
            "YOKE_CUDNN_LIBRARY": f"{folder}/cuda/libcuda.so.1", "YOKE_MIOPEN_LIBRARY": f"{folder}/hip/libamdhip64.so.5",
            "YOKE_NCCL_LIBRARY": f"{folder}/cuda/libcuda.so.1", "YOKE_RCCL_LIBRARY": f"{folder}/hip/libamdhip64.so.5",
            "FAKE_GPU_DEVICES": "2", "FAKE_GPU_RESTORED": "1", "FAKE_GPU_REPORT": str(self.report), "XDG_CACHE_HOME": str(self.folder)}

    # Names of the functions of driver.def in the vendor's library.
    def names(self):
        rows = re.findall(r'^YOKE_(DRIVER|COMPILER|BLAS)\((\w+), .*"(\w+)", "(\w+)"\)$',
                          DRIVER_DEF.read_text(), re.MULTILINE)
        return {("blas_" if kind == "BLAS" else "") + member: cuda if self.vendor == "cuda" else hip
                for kind, member, cuda, hip in rows}

    def start(self, arguments, variables):
        return subprocess.Popen([self.yoke, *arguments], env={**os.environ, **self.variables, **variables},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    # Returns the exit status, all output and what the fake complained about. A run that hangs has the status None.
    def run(self, *arguments, **variables):
        self.report.unlink(missing_ok=True)
        process = self.start(arguments, variables)
        try:
            output, _ = process.communicate(timeout=SECONDS)
            status = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            output, status = process.communicate()[0], None
        complaints = self.report.read_text() if self.report.exists() else ""
        return status, output, complaints

    # Trains two layers on two devices for a hundred steps.
    def train(self, *arguments, **variables):
        # Not auto, which measures links, and goes on if that fails.
        merge = () if "--merge" in arguments else ("--merge", "owner")
        return self.run("train", "--backend", self.vendor, "--shards", "2", "--epochs", "1", *merge, *arguments, **variables)

    # The number of calls of each function in one training.
    def count_calls(self, *arguments, **variables):
        self.calls.unlink(missing_ok=True)
        result = self.train(*arguments, FAKE_GPU_CALLS=str(self.calls), **variables)
        counts = {}
        for line in self.calls.read_text().splitlines():
            name, _, count = line.partition(" ")
            if name:
                counts[name] = max(counts.get(name, 0), int(count))
        return result, counts


# What a training reports about its result.
def result_of(output):
    found = re.search(r"^epoch 1/1: (loss .* %)", output, re.MULTILINE)
    return found.group(1) if found else None
