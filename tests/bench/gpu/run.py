#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu/run.py: everything that needs a GPU, in one command.
"""Builds yoke, then, on the GPU of a backend: times the parts of training against their bars, times MNIST and a GPT beside
PyTorch where it is installed, compares training with the backend cc, runs a short training under compute-sanitizer where it
is installed, and runs the conformance kit. With cuda, repeats timings, training and kit on hip over the CUDA driver. Prints
a table, writes JSON, and exits with 1 if a step fails or a bar is missed, and with 77 if there is no GPU."""
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


# The model of yoke/models.h: pre-norm, GELU, learned positions, an output layer that shares the embedding, no biases.
TORCH_GPT = """
import sys, time, torch
from torch import nn
from torch.nn import functional as F
half = sys.argv[1] == "bf16"
torch.set_float32_matmul_precision("highest")
layers, heads, width, context, batch, symbols = 12, 12, 768, 1024, 8, 65
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
    def forward(self, x):
        parts = self.qkv(self.first(x)).view(batch, context, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.second(x))))
class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols, self.positions = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
        self.last = nn.LayerNorm(width, bias=False)
    def forward(self, x, y):
        hidden = self.layers(self.symbols(x) + self.positions.weight)
        logits = F.linear(self.last(hidden), self.symbols.weight)
        return F.cross_entropy(logits.view(-1, symbols).float(), y.view(-1))
model = Gpt().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
run = torch.compile(model)
data = torch.randint(symbols, (batch, context + 1), device="cuda")
def step():
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        loss = run(data[:, :-1], data[:, 1:])
    loss.backward()
    optimizer.step()
for _ in range(5):
    step()
torch.cuda.synchronize()
start = time.perf_counter()
for _ in range(15):
    step()
torch.cuda.synchronize()
print(15 * batch * context / (time.perf_counter() - start))
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
    targets = ["yoke", "yoke_backend_cc", "yoke_backend_cuda", "yoke_backend_hip", "yoke-conformance", "gpu_bench", "hip_on_cuda"]
    start = time.monotonic()
    run = steps.command(["cmake", "--preset", "release", "-B", folder, "-DYOKE_UNITY=ON"], cwd=ROOT)
    if run.returncode == 0:
        run = steps.command(["cmake", "--build", folder, "--parallel", "--target", *targets], cwd=ROOT)
    steps.add("build", run.returncode == 0, f"{time.monotonic() - start:.0f} s" if run.returncode == 0 else run.stdout[-2000:])
    return run.returncode == 0


def loss_of(steps, yoke, backend, data, environment=None):
    words = [yoke, "train", "--backend", backend, "--shards", "1", "--data", data, "--model", "mlp:64", "--batch", "100", "--epochs", "2",
             "--lr", "0.1", "--json"]
    run = steps.command(words, env=environment)
    if run.returncode != 0:
        return None, last_line(run)
    report = json.loads(run.stdout.strip().splitlines()[-1])
    return report["train_loss"], report


def parity(steps, yoke, backend, data, environment=None):
    name = "training equals cc" + (": hip over the shim" if environment else "")
    mine, report = loss_of(steps, yoke, backend, data, environment)
    peer, _ = loss_of(steps, yoke, "cc", data)
    if mine is None or peer is None:
        steps.add(name, False, str(report))
        return
    difference = abs(mine - peer) / max(abs(peer), 1e-9)
    steps.add(name, difference < 1e-3, f"loss {mine:.6f}, on cc {peer:.6f}")


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


def tokens_per_second(steps, yoke, backend, data, precision):
    """Of the second of two epochs of 9 steps, and why there is none."""
    words = [yoke, "train", "--backend", backend, "--shards", "1", "--data", data, "--model", "gpt:layers=12,heads=12,width=768,context=1024",
             "--batch", "8", "--optimizer", "adamw", "--lr", "3e-4", "--epochs", "2", "--json", *precision]
    run = steps.command(words)
    if run.returncode != 0:
        return None, last_line(run)
    return 1024 * json.loads(run.stdout.strip().splitlines()[-1])["history"][-1]["examples_per_second"], ""


def gpt(steps, yoke, backend, python, data):
    """Tokens per second of a GPT compared with torch.compile, in f32, in bf16 and, for cuda, in bf16 with attention by cuDNN."""
    draw = random.Random(1)
    text = pathlib.Path(data) / "text.txt"
    text.write_text("".join(chr(32 + draw.randrange(65)) for _ in range(8 * 10 * 1025)), encoding="utf-8")
    half = ["--precision", "bf16"]
    peers = {}
    ways = [("f32", "", []), ("bf16", "", half)]
    if backend == "cuda":
        ways.append(("bf16", " with attention by cuDNN", [*half, "--option", "vendor_attention=on"]))
    for type_name, way, precision in ways:
        name = f"GPT 12 x 12 x 768, context 1024, batch 8, AdamW, {type_name}{way}: tokens/s of torch.compile"
        mine, why = tokens_per_second(steps, yoke, backend, text, precision)
        if mine is None:
            steps.add(name, False, why)
            continue
        if python and type_name not in peers:
            peers[type_name] = steps.command([python, "-c", TORCH_GPT, type_name])
        run = peers.get(type_name)
        if run is None or run.returncode != 0:
            steps.add(name, None, f"{mine:.0f} tokens/s; " + (last_line(run) if run else "PyTorch with CUDA is missing, set YOKE_PEER_PYTHON"))
            continue
        peer = float(run.stdout.strip().splitlines()[-1])
        steps.add(name, mine >= peer, f"{100 * mine / peer:.0f} % (bar 100 %), {mine:.0f} of {peer:.0f} tokens/s")


def shim_environment(folder):
    """The variables with which the plugin hip runs on the CUDA driver (tests/hip_on_cuda)."""
    shim = str(folder / "tests" / "hip_on_cuda" / "libamdhip64.so.6")
    return {**os.environ, "YOKE_HIP_LIBRARY": shim, "YOKE_HIPRTC_LIBRARY": shim, "YOKE_HIPBLASLT_LIBRARY": "/nonexistent.so"}


def compare_with_shim(steps, bench, environment):
    """Every timing of hip over the shim is within 5 % of that of cuda; both without the vendor's library."""
    reports = []
    for backend, variables in (("cuda", None), ("hip", environment)):
        run = steps.command([bench, "--backend", backend, "--option", "vendor=off", "--json"], env=variables)
        try:
            reports.append({row["name"]: row for row in json.loads(run.stdout.strip().splitlines()[-1])["rows"]})
        except (IndexError, ValueError):
            steps.add("hip over the shim", False, f"{backend}: {last_line(run)}")
            return
    for name, row in reports[0].items():
        other = reports[1].get(name, {"missing": "no such row"})
        if row["missing"] or other["missing"]:
            steps.add(f"hip over the shim: {name}", None, row["missing"] or other["missing"])
            continue
        slower = row["value"] / other["value"] if row.get("at_least") else other["value"] / row["value"]
        steps.add(f"hip over the shim: {name}", slower <= 1.05, f"{slower:.3f} of the time of cuda (bar 1.05)")


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
            bar = f" (bar {sign} {row['bar']})" if "bar" in row else ""
            steps.add(row["name"], row.get("met", True), f"{row['value']:.3g} {row['unit']}{bar} {row['detail']}")
    return report


def kit(steps, folder, backend, programs, environment=None):
    plugin = folder / "lib" / "yoke" / f"libyoke_backend_{backend}.so"
    run = steps.command([folder / "bin" / "yoke-conformance", plugin, "--programs", programs, "--timeout", 300], env=environment)
    steps.add("conformance kit" + (": hip over the shim" if environment else ""), run.returncode == 0, last_line(run))


def sanitizer(steps, yoke, backend):
    if not shutil.which("compute-sanitizer"):
        steps.add("compute-sanitizer", None, "not installed")
        return
    run = steps.command(["compute-sanitizer", "--error-exitcode", "9", yoke, "train", "--backend", backend, "--epochs", "1", "--batch", "600"])
    steps.add("compute-sanitizer", run.returncode == 0, last_line(run))


def measure(steps, folder, backend, programs):
    yoke = folder / "bin" / "yoke"
    report = timings(steps, folder / "bin" / "gpu_bench", backend)
    shim = shim_environment(folder) if backend == "cuda" else None
    with tempfile.TemporaryDirectory() as data:
        write_images(pathlib.Path(data))
        python = torch_python()
        mnist(steps, yoke, backend, python, data)
        parity(steps, yoke, backend, data)
        kit(steps, folder, backend, programs)
        if shim:
            compare_with_shim(steps, folder / "bin" / "gpu_bench", shim)
            parity(steps, yoke, "hip", data, shim)
            kit(steps, folder, "hip", programs // 3, shim)
        gpt(steps, yoke, backend, python, data)
    sanitizer(steps, yoke, backend)
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
        report = measure(steps, pathlib.Path(arguments.build), arguments.backend, arguments.programs)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "gpu": gpu, "rows": steps.rows,
                                                             "timings": report}, indent=1) + "\n")
    return 0 if all(row["ok"] is not False for row in steps.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
