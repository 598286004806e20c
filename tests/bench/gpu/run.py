#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu/run.py: everything that needs a GPU, in one command.
"""Builds yoke, then, on the GPU of a backend: runs the conformance kit, compares training with the backend cc, runs a short
training under compute-sanitizer where it is installed, times the parts of training against their bars, and times MNIST
beside PyTorch where it is installed. Prints a table, writes JSON, and exits with 1 if a step fails or a bar is missed, and
with 77 if there is no GPU."""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

SKIP = 77
ROOT = pathlib.Path(__file__).resolve().parents[3]

TORCH_STEP = """
import sys, time, torch
mode, batch = sys.argv[1], int(sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(784, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_of = torch.nn.CrossEntropyLoss()
x, y = torch.rand(60000, 784, device="cuda"), torch.randint(10, (60000,), device="cuda")
def step(x, y):
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()
if mode == "compiled":
    forward = torch.compile(lambda x, y: loss_of(model(x), y), mode="reduce-overhead")
    def step(x, y):
        optimizer.zero_grad()
        forward(x, y).backward()
        optimizer.step()
count = 60000 // batch
def epoch():
    for i in range(count):
        step(x[i * batch:i * batch + batch], y[i * batch:i * batch + batch])
    torch.cuda.synchronize()
epoch()
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    epoch()
    best = min(best, (time.perf_counter() - start) / count)
print(best)
"""


def write_images(folder):
    """Files like MNIST's with random pixels, so that the timings need no download."""
    def idx(name, dims, data):
        header = bytes([0, 0, 8, len(dims)]) + b"".join(dim.to_bytes(4, "big") for dim in dims)
        (folder / name).write_bytes(header + data)
    for name, count in (("train", 60000), ("t10k", 1000)):
        idx(f"{name}-images-idx3-ubyte", [count, 28, 28], random.Random(count).randbytes(count * 784))
        idx(f"{name}-labels-idx1-ubyte", [count], bytes(i % 10 for i in range(count)))


class Steps:
    """Runs the steps and keeps their rows: name, value, bar, whether it is met."""

    def __init__(self, deadline):
        self.rows = []
        self.deadline = deadline

    def add(self, name, ok, text):
        self.rows.append({"name": name, "ok": ok, "text": text})
        print(f"{'ok    ' if ok else 'missing' if ok is None else 'FAILED'} {name}: {text}", flush=True)

    def command(self, words, **more):
        left = self.deadline - time.monotonic()
        if left <= 0:
            return subprocess.CompletedProcess(words, 124, "", "the whole run exceeded its time limit")
        try:
            return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=left, **more)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 124, "", f"did not finish within {left:.0f} s")


def last_line(run):
    lines = (run.stdout + run.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit status {run.returncode}"


def gpu_of(backend):
    """A text that describes the GPU, or None and why there is none."""
    if backend == "cuda" or "YOKE_HIP_LIBRARY" in os.environ:  # hip on the CUDA driver: tests/hip_on_cuda
        if not shutil.which("nvidia-smi"):
            return None, "nvidia-smi is missing; install the NVIDIA driver"
        run = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        return (run.stdout.strip(), "") if run.returncode == 0 and run.stdout.strip() else (None, last_line(run))
    return ("/dev/kfd", "") if os.path.exists("/dev/kfd") else (None, "/dev/kfd is missing; load the amdgpu driver")


def build(folder, steps):
    targets = ["yoke", "yoke_backend_cc", "yoke_backend_cuda", "yoke_backend_hip", "yoke-conformance", "gpu_bench"]
    start = time.monotonic()
    run = steps.command(["cmake", "--preset", "release", "-B", folder, "-DYOKE_UNITY=ON"], cwd=ROOT)
    if run.returncode == 0:
        run = steps.command(["cmake", "--build", folder, "--parallel", "--target", *targets], cwd=ROOT)
    steps.add("build", run.returncode == 0, f"{time.monotonic() - start:.0f} s" if run.returncode == 0 else run.stdout[-2000:])
    return run.returncode == 0


def loss_of(steps, yoke, backend, data):
    words = [yoke, "train", "--backend", backend, "--shards", "1", "--data", data, "--model", "mlp:64", "--batch", "100", "--epochs", "2",
             "--lr", "0.1", "--json"]
    run = steps.command(words)
    if run.returncode != 0:
        return None, last_line(run)
    report = json.loads(run.stdout.strip().splitlines()[-1])
    return report["train_loss"], report


def parity(steps, yoke, backend, data):
    mine, report = loss_of(steps, yoke, backend, data)
    peer, _ = loss_of(steps, yoke, "cc", data)
    if mine is None or peer is None:
        steps.add("training equals cc", False, str(report))
        return
    difference = abs(mine - peer) / max(abs(peer), 1e-9)
    steps.add("training equals cc", difference < 1e-3, f"loss {mine:.6f}, on cc {peer:.6f}")


def torch_step(steps, python, mode):
    run = steps.command([python, "-c", TORCH_STEP, mode, "32"])
    return float(run.stdout.strip().splitlines()[-1]) if run.returncode == 0 else None


def mnist(steps, yoke, backend, python, data):
    run = steps.command([yoke, "train", "--backend", backend, "--shards", "1", "--data", data, "--model", "mlp:500", "--batch",
                         "32", "--epochs", "3", "--lr", "0.1", "--json"])
    if run.returncode != 0:
        steps.add("MNIST, batch 32", False, last_line(run))
        return
    step = 32 / json.loads(run.stdout.strip().splitlines()[-1])["examples_per_second"]
    for mode, bar in (("eager", 0.5), ("compiled", 1.0)):
        peer = torch_step(steps, python, mode) if python else None
        name = f"MNIST 784-500-10, batch 32, of PyTorch {mode}"
        if peer is None:
            steps.add(name, None, f"{step * 1e6:.1f} us a step; PyTorch with CUDA is missing, set YOKE_PEER_PYTHON")
        else:
            steps.add(name, step / peer <= bar, f"{step / peer:.2f} (bar {bar}), {step * 1e6:.1f} of {peer * 1e6:.1f} us")


def torch_python():
    for python in (os.environ.get("YOKE_PEER_PYTHON"), sys.executable, "python3"):
        if python and shutil.which(python):
            probe = subprocess.run([python, "-c", "import torch; assert torch.cuda.is_available()"], capture_output=True, check=False)
            if probe.returncode == 0:
                return python
    return None


def timings(steps, bench, backend):
    run = steps.command([bench, "--backend", backend, "--json"])
    try:
        report = json.loads(run.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        steps.add("timings", False, last_line(run))
        return None
    for row in report["rows"]:
        if row["missing"]:
            steps.add(row["name"], None, row["missing"])
        else:
            sign = ">=" if row.get("at_least") else "<="
            steps.add(row["name"], row.get("met"), f"{row['value']:.3g} {row['unit']} (bar {sign} {row.get('bar')}) {row['detail']}")
    return report


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--backend", choices=["cuda", "hip"], default="cuda")
    options.add_argument("--build", default=str(ROOT / "build"), help="build folder; built if necessary; default build")
    options.add_argument("--json", metavar="FILE", help="write the results to a file")
    options.add_argument("--programs", type=int, default=300, help="random programs of the conformance kit; default 300")
    options.add_argument("--minutes", type=float, default=8, help="time limit of the whole run; default 8")
    arguments = options.parse_args()
    gpu, why = gpu_of(arguments.backend)
    if gpu is None:
        print(f"skipped: no GPU: {why}")
        return SKIP
    print(gpu, flush=True)
    steps = Steps(time.monotonic() + 60 * arguments.minutes)
    report = None
    if build(arguments.build, steps):
        folder = pathlib.Path(arguments.build)
        yoke, plugin = folder / "bin" / "yoke", folder / "lib" / "yoke" / f"libyoke_backend_{arguments.backend}.so"
        report = timings(steps, folder / "bin" / "gpu_bench", arguments.backend)
        with tempfile.TemporaryDirectory() as data:
            write_images(pathlib.Path(data))
            mnist(steps, yoke, arguments.backend, torch_python(), data)
            parity(steps, yoke, arguments.backend, data)
        if shutil.which("compute-sanitizer"):
            run = steps.command(["compute-sanitizer", "--error-exitcode", "9", yoke, "train", "--backend", arguments.backend,
                                 "--epochs", "1", "--batch", "600"])
            steps.add("compute-sanitizer", run.returncode == 0, last_line(run))
        else:
            steps.add("compute-sanitizer", None, "not installed")
        run = steps.command([folder / "bin" / "yoke-conformance", plugin, "--programs", arguments.programs, "--timeout", 300])
        steps.add("conformance kit", run.returncode == 0, last_line(run))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "gpu": gpu, "rows": steps.rows,
                                                             "timings": report}, indent=1) + "\n")
    return 0 if all(row["ok"] is not False for row in steps.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
