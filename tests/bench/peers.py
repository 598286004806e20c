#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/bench/peers.py: times training on MNIST, softmax with layer norm, and an LSTM beside PyTorch and JAX.
"""Times one epoch of MNIST (MLPs with ReLU, SGD 0.1), softmax followed by layer norm over 4096 x 1024 with gradients, and
a training step of an LSTM (beside PyTorch only, without a goal yet), with yoke's backend cc and with PyTorch and JAX on the
same cores. All run in turns on the same data; the best time of each counts: for yoke the better of 2 shards and of 1 shard
with 2 threads, for a peer the better of 1 and 2 threads. Prints the times, and the ratio of yoke's to each peer's with its
goal. Exits with 1 if a ratio exceeds --limit, and with 77 if the data or every peer is missing."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

SKIP = 77

# Hidden layers, batch, goals against PyTorch and JAX.
NETS = [
    ("500", 32, 0.45, 0.55),
    ("500", 100, 0.45, 0.65),
    ("500", 500, 0.78, 0.88),
    ("1024-1024-1024", 500, 0.90, 0.88),
]
NORM_GOALS = {"torch": 0.8, "jax": 0.8}

DATA = """
import gzip, sys, time
import numpy
def idx(path, offset):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=offset)
def mnist(folder):
    x = idx(folder + "/train-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype("float32") / 255
    return (x - x.mean()) / x.std(), idx(folder + "/train-labels-idx1-ubyte.gz", 8).astype("int64")
folder, hidden, batch, threads = sys.argv[1], [int(n) for n in sys.argv[2].split("-")], int(sys.argv[3]), int(sys.argv[4])
"""

TORCH = {
    "net": DATA + """
import torch
torch.set_num_threads(threads)
torch.manual_seed(0)
x, y = (torch.from_numpy(part) for part in mnist(folder))
widths = [784] + hidden + [10]
layers = []
for n, m in zip(widths, widths[1:]):
    layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers[:-1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_of = torch.nn.CrossEntropyLoss()
def steps(count):
    for i in range(count):
        rows = slice(batch * i, batch * i + batch)
        optimizer.zero_grad()
        loss_of(model(x[rows]), y[rows]).backward()
        optimizer.step()
steps(20)
start = time.perf_counter()
steps(60000 // batch)
print(time.perf_counter() - start)
""",
    "norm": DATA + """
import torch
torch.set_num_threads(threads)
x = torch.randn(4096, 1024, requires_grad=True)
gamma, beta = torch.ones(1024, requires_grad=True), torch.zeros(1024, requires_grad=True)
dy = torch.randn(4096, 1024)
def step():
    y = torch.nn.functional.layer_norm(torch.softmax(x, 1), (1024,), gamma, beta)
    torch.autograd.grad(y, (x, gamma, beta), dy)
step()
best = 1e9
for _ in range(10):
    start = time.perf_counter()
    step()
    best = min(best, time.perf_counter() - start)
print(best)
""",
}

JAX = {
    "net": DATA + """
import jax, jax.numpy as jnp
x, y = (jnp.asarray(part) for part in mnist(folder))
widths = [784] + hidden + [10]
key = jax.random.PRNGKey(0)
weights = [(jax.random.normal(key, (n, m)) / n ** 0.5, jnp.zeros(m)) for n, m in zip(widths, widths[1:])]
def loss_of(weights, x, y):
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    logits = jax.nn.log_softmax(x @ weights[-1][0] + weights[-1][1])
    return -jnp.take_along_axis(logits, y[:, None], 1).mean()
@jax.jit
def step(weights, i):
    rows = jax.lax.dynamic_slice_in_dim(x, i * batch, batch), jax.lax.dynamic_slice_in_dim(y, i * batch, batch)
    grads = jax.grad(loss_of)(weights, *rows)
    return jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, weights, grads)
def steps(weights, count):
    for i in range(count):
        weights = step(weights, i)
    return jax.block_until_ready(weights)
weights = steps(weights, 20)
start = time.perf_counter()
steps(weights, 60000 // batch)
print(time.perf_counter() - start)
""",
    "norm": DATA + """
import jax, jax.numpy as jnp
key = jax.random.PRNGKey(0)
x, dy = jax.random.normal(key, (4096, 1024)), jax.random.normal(key, (4096, 1024))
gamma, beta = jnp.ones(1024), jnp.zeros(1024)
def norm(x, gamma, beta):
    p = jax.nn.softmax(x)
    h = p - p.mean(1, keepdims=True)
    return h * jax.lax.rsqrt((h * h).mean(1, keepdims=True) + 1e-5) * gamma + beta
@jax.jit
def step(x, gamma, beta, dy):
    y, back = jax.vjp(norm, x, gamma, beta)
    return y, back(dy)
jax.block_until_ready(step(x, gamma, beta, dy))
best = 1e9
for _ in range(10):
    start = time.perf_counter()
    jax.block_until_ready(step(x, gamma, beta, dy))
    best = min(best, time.perf_counter() - start)
print(best)
""",
}
TORCH["lstm"] = DATA + """
import torch
torch.set_num_threads(threads)
torch.manual_seed(0)
lstm, head = torch.nn.LSTM(128, 128, batch_first=True), torch.nn.Linear(128, 64)
optimizer = torch.optim.SGD([*lstm.parameters(), *head.parameters()], lr=0.01)
loss_of = torch.nn.CrossEntropyLoss()
x, y = torch.randn(32, 64, 128), torch.randint(64, (32 * 64,))
best = 1e9
for _ in range(20):
    start = time.perf_counter()
    optimizer.zero_grad()
    loss_of(head(lstm(x)[0]).reshape(-1, 64), y).backward()
    optimizer.step()
    best = min(best, time.perf_counter() - start)
print(best)
"""
PEERS = {"torch": ("PyTorch", TORCH), "jax": ("JAX", JAX)}


def find_python(module):
    for python in (os.environ.get("YOKE_PEER_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and shutil.which(python):
            probe = subprocess.run([python, "-c", f"import {module}, numpy"], capture_output=True, check=False)
            if probe.returncode == 0:
                return python
    return None


def find_data():
    root = pathlib.Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("YOKE_TEST_DATA"), root.parent / "shared" / "data"):
        if folder and (pathlib.Path(folder) / "mnist" / "train-images-idx3-ubyte.gz").exists():
            return pathlib.Path(folder) / "mnist"
    return None


def peer_seconds(peer, python, what, data, hidden, batch, threads):
    command = [python, "-c", PEERS[peer][1][what], str(data), hidden, str(batch), str(threads)]
    if threads == 1:
        command = ["taskset", "-c", "0"] + command  # JAX has no option for the number of threads
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def yoke_epoch(command, data, hidden, batch, shards):
    words = [command, "train", "--backend", "cc", "--shards", str(shards), "--data", str(data), "--model", f"mlp:{hidden}",
             "--batch", str(batch), "--epochs", "1", "--lr", "0.1", "--json"]
    if shards == 1:
        words += ["--option", "threads=2"]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    report = json.loads(run.stdout.strip().splitlines()[-1])
    return report["steps"] * batch / report["examples_per_second"]


def yoke_bench(bench, name):
    run = subprocess.run([bench, f"--benchmark_filter={name}", "--benchmark_format=json",
                          "--benchmark_repetitions=5"], capture_output=True, text=True, check=True)
    rows = [row for row in json.loads(run.stdout)["benchmarks"] if row["run_type"] == "iteration"]
    return min(row["real_time"] for row in rows) / 1e3  # from milliseconds


def best_of_rounds(rounds, runs):
    """The least time of each name; the runs take turns."""
    best = {}
    for _ in range(rounds):
        for name, run in runs:
            best[name] = min(best.get(name, float("inf")), run())
    return best


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--yoke", required=True, help="the yoke command")
    options.add_argument("--bench", help="cc_bench; without it, softmax with layer norm is left out")
    options.add_argument("--lstm", help="lstm_bench; without it, the LSTM is left out")
    options.add_argument("--rounds", type=int, default=3, help="number of runs of each; default 3")
    options.add_argument("--only", metavar="ROW", help="one net, such as 500:100, or norm, or lstm")
    options.add_argument("--peer", choices=sorted(PEERS), help="one peer, default all that are installed")
    options.add_argument("--limit", type=float, help="exit with 1 if a ratio exceeds this")
    arguments = options.parse_args()
    pythons = {peer: find_python(peer) for peer in ([arguments.peer] if arguments.peer else PEERS)}
    pythons = {peer: python for peer, python in pythons.items() if python}
    data = find_data()
    if data is None:
        print("skipped: no MNIST files; set YOKE_TEST_DATA, or put them in ../shared/data next to the source tree")
        return SKIP
    if not pythons:
        print("skipped: no python3 with numpy and a peer, torch or jax; set YOKE_PEER_PYTHON")
        return SKIP
    rows = [(f"784-{hidden}-10, batch {batch}", "net", hidden, batch, dict(torch=torch, jax=jax))
            for hidden, batch, torch, jax in NETS if arguments.only in (None, f"{hidden}:{batch}")]
    if arguments.bench and arguments.only in (None, "norm"):
        rows.append(("softmax + layer norm, 4096 x 1024", "norm", "1", 1, NORM_GOALS))
    if arguments.lstm and "torch" in pythons and arguments.only in (None, "lstm"):
        rows.append(("LSTM, width 128, 64 rounds, batch 32", "lstm", "1", 1, {}))
    worst = 0
    for title, what, hidden, batch, goals in rows:
        runs = [((peer, threads), lambda p=peer, t=threads: peer_seconds(p, pythons[p], what, data, hidden, batch, t))
                for peer in pythons if what in PEERS[peer][1] for threads in (1, 2)]
        if what == "net":
            runs += [(("yoke", shards), lambda s=shards: yoke_epoch(arguments.yoke, data, hidden, batch, s))
                     for shards in (2, 1)]
        else:
            bench, name = (arguments.bench, "softmax_layer_norm") if what == "norm" else (arguments.lstm, "lstm_step")
            runs.append((("yoke", 1), lambda b=bench, n=name: yoke_bench(b, n)))
        times = {}
        for (who, _), seconds in best_of_rounds(arguments.rounds, runs).items():
            times[who] = min(times.get(who, float("inf")), seconds)
        line = f"{title}: yoke {times['yoke']:.4f} s"
        for peer in (peer for peer in pythons if peer in times):
            ratio = times["yoke"] / times[peer]
            line += f"; {PEERS[peer][0]} {times[peer]:.4f} s, ratio {ratio:.2f}"
            if peer in goals:
                worst = max(worst, ratio)
                line += f" (goal {goals[peer]:.2f})"
        print(line, flush=True)
    return 1 if arguments.limit is not None and worst > arguments.limit else 0


if __name__ == "__main__":
    sys.exit(main())
