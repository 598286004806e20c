#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/parity/short_runs.py: known models learn from real data in a few seconds.
"""Trains models with `yoke train` on real data for a few steps, and compares each result with a bar that a model misses
if learning is broken. Prints a line per run. Exits with 1 if a bar is missed, and with 77 if the data is missing.

usage: short_runs.py YOKE DATA
"""
import json
import pathlib
import subprocess
import sys
import time

# Options, the metric, 1 if larger is better or -1 if smaller is, the bar. An untrained model has an accuracy of 0.1 and a
# loss of ln 65 = 4.17; predicting from character frequencies alone gives a loss of 3.3.
RUNS = [
    (["--data", "mnist", "--model", "lenet", "--batch", "64", "--steps", "250", "--optimizer", "adam"],
     "test_accuracy", 1, 0.9),
    (["--data", "text/tinyshakespeare.txt", "--model", "gpt:layers=2,heads=2,width=64,context=32", "--batch", "32",
      "--steps", "150", "--optimizer", "adamw", "--lr", "0.003"], "validation_loss", -1, 2.6),
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    yoke, data = sys.argv[1], pathlib.Path(sys.argv[2])
    if not all((data / options[1]).exists() for options, *_ in RUNS):
        print(f"skipped: no data in {data}")
        return 77
    is_good = True
    for options, key, sign, bar in RUNS:
        start = time.monotonic()
        command = [yoke, "train", "--data", data / options[1], *options[2:], "--seed", "1", "--json"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        value = json.loads(done.stdout)[key]
        print(f"{options[3]}: {key} {value:.4f} (bar {bar}) after {time.monotonic() - start:.1f} s", flush=True)
        is_good = is_good and sign * value >= sign * bar
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
