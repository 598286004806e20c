#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/bench/models.py: times training steps of known models beside PyTorch and JAX.
"""Times training steps (forward, backward, update) of known models on yoke's backend cc beside PyTorch, eager and
compiled, and JAX, on the same cores and made-up data. All start from the same parameters, and the losses of the first
steps must agree. Then they take turns. Prints the median time of a step, and the ratio of yoke's to that of the fastest
other: the median over the rounds, with the goal. Also compares the peak memory of the processes; the goal is at most PyTorch's.
Exits with 1 if losses disagree or a ratio exceeds --limit times its goal, and with 77 if there is no PyTorch."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from peers import SKIP, find_python

# Batch, steps per round, goal.
MODELS = {
    "lenet": (64, 20, 0.8),
    "resnet18": (32, 1, 1.0),
    "char-mlp": (32, 200, 0.5),
    "char-lstm": (32, 5, 0.8),
    "gpt": (32, 2, 0.8),
}
TOLERANCE = 2e-3  # of a loss: its relative difference after a few steps of f32 arithmetic

TORCH = r"""
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy, torch
from torch import nn
from torch.nn import functional as F
name, batch, threads, mode, file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
torch.set_num_threads(threads)
SYMBOLS = 65

def number(dims, first):
    n = numpy.arange(numpy.prod(dims), dtype=numpy.int64) + first
    return ((n * n * 7 + n * 3) % 10007).reshape(dims)

def pixels(*dims):
    return torch.from_numpy(number(dims, 0).astype(numpy.float32) / numpy.float32(5000) - 1).permute(0, 3, 1, 2)

def numbers(dims, below, first):
    return torch.from_numpy(number(dims, first) % below)

class Block(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity() if stride == 1 and before == width else nn.Sequential(
            nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))

class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(SYMBOLS, 128), nn.LSTM(128, 128, batch_first=True), nn.Linear(128, SYMBOLS)
        self.lstm.bias_hh_l0.requires_grad_(False).zero_()  # yoke has one bias
    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0])

class Gpt(nn.Module):
    class Layer(nn.Module):
        def __init__(self, width=128):
            super().__init__()
            self.norm1 = nn.LayerNorm(width, bias=False)
            self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.norm2 = nn.LayerNorm(width, bias=False)
            self.linear1, self.linear2 = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        def forward(self, x):
            b, t, c = x.shape
            y = self.norm1(x)
            q, k, v = (part(y).view(b, t, 4, c // 4).transpose(1, 2) for part in (self.query, self.key, self.value))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.output(y.transpose(1, 2).reshape(b, t, c))
            return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(SYMBOLS, 128), nn.Embedding(64, 128)
        self.blocks = nn.Sequential(*(Gpt.Layer() for _ in range(4)))
        self.norm = nn.LayerNorm(128, bias=False)
    def forward(self, x):
        y = self.norm(self.blocks(self.embedding(x) + self.positions.weight))
        return y @ self.embedding.weight.T

def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

def resnet18():
    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for width in (64, 128, 256, 512):
        layers += [Block(before, width, 1 if width == 64 else 2), Block(width, width, 1)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))

def char_mlp():
    return nn.Sequential(nn.Embedding(SYMBOLS, 10), nn.Flatten(), nn.Linear(30, 200), nn.Tanh(), nn.Linear(200, SYMBOLS))

if name in ("lenet", "resnet18"):
    model = lenet() if name == "lenet" else resnet18()
    x, y = (pixels(batch, 28, 28, 1) if name == "lenet" else pixels(batch, 32, 32, 3)), numbers((batch,), 10, 0)
    if name == "lenet":  # PyTorch is faster on these in its own layout, and on resnet18 with channels last
        x = x.contiguous()
    else:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
else:
    model = {"char-mlp": char_mlp, "char-lstm": Lstm, "gpt": Gpt}[name]()
    length = 3 if name == "char-mlp" else 64
    x, y = numbers((batch, length), SYMBOLS, 0), numbers((batch,) if name == "char-mlp" else (batch, length), SYMBOLS, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if name == "char-mlp" else torch.optim.AdamW(model.parameters(), lr=0.001)

saved = [value for key, value in numpy.load(file).items() if "running" not in key and "mean" not in key and "variance" not in key]
targets = [p for p in model.parameters() if p.requires_grad]
assert len(saved) == len(targets), (len(saved), len(targets))
with torch.no_grad():
    for value, parameter in zip(saved, targets):
        value = torch.from_numpy(value)
        if value.ndim == 4:
            value = value.permute(0, 3, 1, 2)
        elif name == "lenet" and value.shape == (120, 400):  # yoke flattens channels last
            value = value.reshape(120, 5, 5, 16).permute(0, 3, 1, 2).reshape(120, 400)
        assert value.shape == parameter.shape, (value.shape, parameter.shape)
        parameter.copy_(value)

forward = torch.compile(model) if mode == "compiled" else model
def step():
    optimizer.zero_grad()
    logits = forward(x)
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
    loss.backward()
    optimizer.step()
    return loss

print([float(step()) for _ in range(5)], flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        loss = step()
    float(loss)
    print((time.perf_counter() - start) / int(line), flush=True)
"""

JAX = r"""
import functools, sys, time
import jax, jax.numpy as np, numpy
name, batch, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SYMBOLS = 65

def number(dims, first):
    n = numpy.arange(numpy.prod(dims), dtype=numpy.int64) + first
    return ((n * n * 7 + n * 3) % 10007).reshape(dims)

def pixels(*dims):
    return np.asarray(number(dims, 0).astype(numpy.float32) / numpy.float32(5000) - 1)

def numbers(dims, below, first):
    return np.asarray(number(dims, first) % below, np.int32)

def conv(x, weight, stride=1, padding=0):
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "OHWI", "NHWC"))

def pool(x):
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

def layer_norm(x, weight):
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered ** 2).mean(-1, keepdims=True) + 1e-5) * weight

def lenet(p, x):
    x = pool(jax.nn.relu(conv(x, p[0], 1, 2) + p[1]))
    x = pool(jax.nn.relu(conv(x, p[2]) + p[3])).reshape(x.shape[0], -1)
    return jax.nn.relu(jax.nn.relu(x @ p[4].T + p[5]) @ p[6].T + p[7]) @ p[8].T + p[9]

def resnet18(p, x):  # running statistics, which yoke and PyTorch update, are left out
    values = iter(p)
    def norm(x):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * next(values) + next(values)
    def block(x, width, stride):
        y = jax.nn.relu(norm(conv(x, next(values), stride, 1)))
        y = norm(conv(y, next(values), 1, 1))
        return jax.nn.relu(y + (x if x.shape[-1] == width else norm(conv(x, next(values), stride))))
    x = jax.nn.relu(norm(conv(x, next(values), 1, 1)))
    for width in (64, 128, 256, 512):
        x = block(block(x, width, 1 if width == 64 else 2), width, 1)
    return x.mean((1, 2)) @ next(values).T + next(values)

def char_mlp(p, x):
    return np.tanh(p[0][x].reshape(x.shape[0], -1) @ p[1].T + p[2]) @ p[3].T + p[4]

def char_lstm(p, x):
    inputs = (p[0][x] @ p[1].T + p[3]).transpose(1, 0, 2)
    def round(state, given):
        hidden, cell = state
        i, f, g, o = np.split(given + hidden @ p[2].T, 4, -1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * np.tanh(g)
        hidden = jax.nn.sigmoid(o) * np.tanh(cell)
        return (hidden, cell), hidden
    zeros = np.zeros((x.shape[0], 128), np.float32)
    return jax.lax.scan(round, (zeros, zeros), inputs)[1].transpose(1, 0, 2) @ p[4].T + p[5]

def gpt(p, x):
    b, t = x.shape
    y = p[0][x] + p[1]
    for i in range(4):
        norm1, query, key, value, output, norm2, linear1, linear2 = p[2 + 8 * i:10 + 8 * i]
        z = layer_norm(y, norm1)
        q, k, v = ((z @ w.T).reshape(b, t, 4, 32) for w in (query, key, value))
        y = y + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, 128) @ output.T
        y = y + jax.nn.gelu(layer_norm(y, norm2) @ linear1.T, approximate=False) @ linear2.T
    return layer_norm(y, p[-1]) @ p[0].T

model = {"lenet": lenet, "resnet18": resnet18, "char-mlp": char_mlp, "char-lstm": char_lstm, "gpt": gpt}[name]
if name in ("lenet", "resnet18"):
    x, y = (pixels(batch, 28, 28, 1) if name == "lenet" else pixels(batch, 32, 32, 3)), numbers((batch,), 10, 0)
else:
    length = 3 if name == "char-mlp" else 64
    x, y = numbers((batch, length), SYMBOLS, 0), numbers((batch,) if name == "char-mlp" else (batch, length), SYMBOLS, 1)
parameters = [np.asarray(value) for key, value in numpy.load(file).items()
              if "running" not in key and "mean" not in key and "variance" not in key]

def loss_of(p, x, y):
    return -np.take_along_axis(jax.nn.log_softmax(model(p, x)), y[..., None], -1).mean()

def sgd(p, state, g):
    return [a - (0.01 if name != "char-mlp" else 0.1) * b for a, b in zip(p, g)], state

def adamw(p, state, g):
    t, first, second = state
    t += 1
    first = [0.9 * m + 0.1 * b for m, b in zip(first, g)]
    second = [0.999 * v + 0.001 * b * b for v, b in zip(second, g)]
    def moved(a, m, v):
        return a * (1 - 1e-5) - 1e-3 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
    return [moved(a, m, v) for a, m, v in zip(p, first, second)], (t, first, second)

zeros = [np.zeros_like(a) for a in parameters]
state = () if name in ("lenet", "resnet18", "char-mlp") else (np.float32(0), zeros, [z.copy() for z in zeros])

@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(p, state, x, y):
    loss, g = jax.value_and_grad(loss_of)(p, x, y)
    return loss, *(adamw if state else sgd)(p, state, g)

losses = []
for _ in range(5):
    loss, parameters, state = step(parameters, state, x, y)
    losses.append(float(loss))
print(losses, flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        loss, parameters, state = step(parameters, state, x, y)
    float(loss)
    jax.block_until_ready(parameters)
    print((time.perf_counter() - start) / int(line), flush=True)
"""


class Worker:
    """A process that prints its first losses, and then the time of a step for each number of steps it is given."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL if "compiled" in name else None, text=True)
        self.losses = json.loads(self.answer())

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: exit code {self.process.wait()}")
        return line

    def seconds(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.answer())

    def peak_bytes(self):
        """The largest resident memory so far."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("the kernel reports no VmHWM")

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def disagreement(mine, theirs):
    return max(abs(a - b) / max(abs(b), 1) for a, b in zip(mine, theirs))


def measure(name, arguments, python, folder):
    """Returns the larger of the time ratio divided by its goal and the ratio of peak memory, or None if losses disagree."""
    batch, steps, goal = MODELS[name]
    file = str(pathlib.Path(folder) / f"{name}.npz")
    workers = []
    try:
        for shards, threads in [(1, count) for count in arguments.threads] + ([(2, 1)] if arguments.shards else []):
            workers.append(Worker(f"yoke, {shards} x {threads}", [
                arguments.bench, f"model={name}", f"batch={batch}", f"shards={shards}", f"threads={threads}", f"save={file}"]))
        for mode in (mode for mode in arguments.modes if mode != "jax"):
            for threads in arguments.threads:
                workers.append(Worker(f"PyTorch {mode}, {threads}",
                                      [python, "-c", TORCH, name, str(batch), str(threads), mode, file]))
        jax = find_python("jax") if "jax" in arguments.modes else None
        for threads in arguments.threads if jax else []:  # JAX has no option for the number of threads
            cores = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))]
            workers.append(Worker(f"JAX, {threads}", [*cores, jax, "-c", JAX, name, str(batch), file]))
        if not any("PyTorch" in worker.name or "JAX" in worker.name for worker in workers):
            raise RuntimeError("there is nothing to compare with: JAX is not installed")
        for worker in workers[1:]:
            # The first step has the same parameters for all; batch norm of shards is that of each shard.
            if disagreement(worker.losses, workers[0].losses) > TOLERANCE and not (name == "resnet18" and "2 x" in worker.name):
                print(f"{name}: losses disagree: {workers[0].name} {workers[0].losses}, {worker.name} {worker.losses}")
                return None
        for worker in workers:
            worker.seconds(steps)  # warm up
        times = {worker.name: [] for worker in workers}
        ratios = []
        for _ in range(arguments.rounds):
            for worker in workers:
                times[worker.name].append(worker.seconds(steps))
            last = {who: values[-1] for who, values in times.items()}
            ratios.append(min(t for who, t in last.items() if who.startswith("yoke")) /
                          min(t for who, t in last.items() if not who.startswith("yoke")))
        peaks = {worker.name: worker.peak_bytes() for worker in workers}
    finally:
        for worker in workers:
            worker.end()
    medians = "; ".join(f"{who}: {statistics.median(values) * 1e3:.3g} ms" for who, values in times.items())
    ratio = statistics.median(ratios)
    mine = max(peak for who, peak in peaks.items() if who.startswith("yoke, 1 x"))
    theirs = min((peak for who, peak in peaks.items() if who.startswith("PyTorch")), default=mine)
    print(f"{name}, batch {batch}: ratio {ratio:.2f} (goal {goal}); {medians}; peak memory: yoke at most {mine >> 20} MiB, "
          f"PyTorch at least {theirs >> 20} MiB", flush=True)
    return max(ratio / goal, mine / theirs)  # over 1: a goal is missed


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bench", required=True, help="model_bench")
    options.add_argument("--model", action="append", choices=sorted(MODELS), help="default all; may be repeated")
    options.add_argument("--rounds", type=int, default=7, help="default 7")
    options.add_argument("--threads", type=int, action="append", help="default 1 and 2, the better counts; may be repeated")
    options.add_argument("--mode", dest="modes", action="append", choices=("eager", "compiled", "jax"),
                         help="default all; JAX only where it is installed; may be repeated")
    options.add_argument("--shards", action="store_true", help="also run yoke with 2 shards")
    options.add_argument("--limit", type=float, help="exit with 1 if a ratio exceeds this times its goal")
    arguments = options.parse_args()
    arguments.threads = arguments.threads or [1, 2]
    arguments.modes = arguments.modes or ["eager", "compiled", "jax"]
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # of all: on a shared machine, waiting threads must not spin
    python = find_python("torch")
    if python is None:
        print("skipped: no python3 with numpy and torch; set YOKE_PEER_PYTHON")
        return SKIP
    is_good = True
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.model or MODELS:
            share = measure(name, arguments, python, folder)
            is_good = is_good and share is not None
            if share is not None and arguments.limit is not None:
                is_good = is_good and share <= arguments.limit
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
