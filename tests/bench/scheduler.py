#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host time of a training step on the backend null, by number of shards and strategy.

    tests/bench/scheduler.py [--yoke build/bin/yoke] --data DIR [--rounds 5] [--overlap off] [--json]

DIR has the MNIST files. Each figure is the best of the rounds, in microseconds. Ratios compare runs of one round."""
import argparse
import json
import os
import subprocess
import sys

BATCH = 1024
STRATEGIES = ["direct", "owner", "tree", "ring"]


def step_us(yoke, data, layers, shards, merge, overlap):
    model = "mlp:" + "-".join(["4"] * layers)
    command = [yoke, "train", "--backend", "null", "--model", model, "--shards", str(shards), "--merge", merge,
               "--overlap", overlap, "--batch", str(BATCH), "--epochs", "4", "--data", data, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return BATCH * 1e6 / json.loads(result.stdout.splitlines()[-1])["examples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yoke", default="build/bin/yoke", help="the command, default build/bin/yoke")
    parser.add_argument("--data", required=True, help="folder with the MNIST files")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each setting, default 5")
    parser.add_argument("--overlap", choices=["on", "off"], default="off", help="merge on streams of their own")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not os.access(options.yoke, os.X_OK):
        parser.error(f"{options.yoke} is not a program; build it with ./quickstart build")
    if options.rounds < 1:
        parser.error("--rounds: use at least 1")
    settings = [(layers, shards, merge) for merge in STRATEGIES
                for layers, shards in ((1, 2), (40, 2), (20, 8), (20, 64), (20, 256))]
    best = {setting: float("inf") for setting in settings}
    for number in range(options.rounds):
        for layers, shards, merge in settings:
            if sys.stderr.isatty():
                print(f"\rround {number + 1} of {options.rounds}: {merge}, {shards} shards   ", end="", file=sys.stderr)
            best[layers, shards, merge] = min(best[layers, shards, merge],
                                              step_us(options.yoke, options.data, layers, shards, merge, options.overlap))
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    rows = [{"layers": layers, "shards": shards, "merge": merge, "microseconds": round(us, 2)}
            for (layers, shards, merge), us in best.items()]
    ratios = {merge: {"40 layers / 1": round(best[40, 2, merge] / best[1, 2, merge], 2),
                      "256 shards / 64": round(best[20, 256, merge] / best[20, 64, merge], 2)} for merge in STRATEGIES}
    if options.json:
        print(json.dumps({"batch": BATCH, "overlap": options.overlap, "rows": rows, "ratios": ratios}))
        return
    print("merge   layers  shards  microseconds a step")
    for row in rows:
        print(f"{row['merge']:7} {row['layers']:6} {row['shards']:7} {row['microseconds']:12.1f}")
    for merge in STRATEGIES:
        print(f"{merge}: " + ", ".join(f"{name}: {value}" for name, value in ratios[merge].items()))


if __name__ == "__main__":
    main()
