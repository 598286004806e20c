#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/parity/pytorch_epoch.py: times one epoch of an MLP on MNIST with yoke and with PyTorch.
"""Compares the time of one epoch of MNIST (MLP 784-500-10, SGD 0.1, batches of 100): yoke with 2 shards, PyTorch with 2
threads. Prints both times and their ratio. Exits with 1 if yoke takes more than 1.5 times as long, and with 77 if PyTorch
or the data is missing."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

SKIP = 77
ROUNDS = 3  # both run in turns, and the best time of each counts

TORCH_EPOCH = """
import gzip, sys, time
import numpy
import torch
torch.set_num_threads(2)
torch.manual_seed(0)
def idx(path, offset):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=offset)
folder = sys.argv[1]
x = torch.from_numpy(idx(folder + "/train-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype("float32") / 255)
y = torch.from_numpy(idx(folder + "/train-labels-idx1-ubyte.gz", 8).astype("int64"))
x = (x - x.mean()) / x.std()
model = torch.nn.Sequential(torch.nn.Linear(784, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_of = torch.nn.CrossEntropyLoss()
def steps(count):
    for i in range(count):
        batch = slice(100 * i, 100 * i + 100)
        optimizer.zero_grad()
        loss_of(model(x[batch]), y[batch]).backward()
        optimizer.step()
steps(20)
start = time.perf_counter()
steps(600)
print(time.perf_counter() - start)
"""


def find_python_with_torch():
    for python in (os.environ.get("YOKE_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and shutil.which(python):
            probe = subprocess.run([python, "-c", "import torch, numpy"], capture_output=True, check=False)
            if probe.returncode == 0:
                return python
    return None


def find_data():
    root = pathlib.Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("YOKE_TEST_DATA"), root.parent / "shared" / "data"):
        if folder and (pathlib.Path(folder) / "mnist" / "train-images-idx3-ubyte.gz").exists():
            return pathlib.Path(folder) / "mnist"
    return None


def yoke_epoch(command, data):
    run = subprocess.run(
        [command, "train", "--backend", "cc", "--shards", "2", "--data", str(data), "--model", "mlp:500",
         "--batch", "100", "--epochs", "1", "--lr", "0.1", "--json"],
        capture_output=True, text=True, check=True)
    report = json.loads(run.stdout.strip().splitlines()[-1])
    return report["steps"] * 100 / report["examples_per_second"], report


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--yoke", required=True, help="the yoke command")
    arguments = options.parse_args()
    python, data = find_python_with_torch(), find_data()
    if data is None:
        print("skipped: no MNIST files; set YOKE_TEST_DATA, or put them in ../shared/data next to the source tree")
        return SKIP
    if python is None:
        print("skipped: no python3 with torch and numpy; set YOKE_TORCH_PYTHON")
        return SKIP
    peer, own = [], []
    for _ in range(ROUNDS):
        out = subprocess.run([python, "-c", TORCH_EPOCH, str(data)], capture_output=True, text=True, check=True)
        peer.append(float(out.stdout))
        seconds, report = yoke_epoch(arguments.yoke, data)
        own.append(seconds)
    ratio = min(own) / min(peer)
    print(f"one epoch: PyTorch {min(peer):.2f} s, yoke {min(own):.2f} s (2 shards), yoke / PyTorch = {ratio:.2f}"
          f" (test accuracy {report['test_accuracy']:.4f})")
    return 0 if ratio <= 1.5 else 1


if __name__ == "__main__":
    sys.exit(main())
