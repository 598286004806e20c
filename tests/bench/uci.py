#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the UCI regression sets by `yoke train`, and compares the test error with a linear model's.

Usage: uci.py --yoke build/bin/yoke --data DIR [--splits N] [--sets NAME...]

DIR has a folder per set, with data.txt (columns separated by blanks) and splits.txt (permutations of the rows; the last
tenth is for testing). Prints the mean RMSE over the first N splits of each set, and that of linear least squares on the
same rows. Exits with 1 unless yoke is better on every set, and with 77 if the data or numpy is missing.
"""
import argparse
import json
import pathlib
import subprocess
import sys

try:
    import numpy
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

# Label and dropped columns of sets whose label is not the last column; options that differ from COMMON.
COLUMNS = {"naval_propulsion": (16, [17])}
COMMON = ["--model", "mlp:50", "--optimizer", "adam", "--lr", "0.01", "--schedule", "cosine", "--shuffle", "--shards", "1"]
OPTIONS = {
    "boston_housing": ["--batch", "32", "--epochs", "40", "--weight-decay", "0.001"],
    "energy": ["--batch", "32", "--epochs", "100"],
    "wine_quality_red": ["--batch", "64", "--epochs", "15", "--lr", "0.003", "--weight-decay", "0.001"],
    "power_plant": ["--batch", "64", "--epochs", "20"],
    "kin8nm": ["--batch", "64", "--epochs", "30"],
    "naval_propulsion": ["--batch", "64", "--epochs", "40"],
    "protein": ["--batch", "128", "--epochs", "15"],
}


def linear_rmse(values, order, label, dropped):
    count = round(0.9 * len(values))
    features = [c for c in range(values.shape[1]) if c != label and c not in dropped]
    x = numpy.hstack([values[:, features], numpy.ones((len(values), 1))])
    y = values[:, label]
    train, test = order[:count], order[count:]
    weights = numpy.linalg.lstsq(x[train], y[train], rcond=None)[0]
    return float(numpy.sqrt(numpy.mean((x[test] @ weights - y[test]) ** 2)))


def yoke_rmse(yoke, folder, split, label, dropped):
    command = [yoke, "train", "--data", folder / "data.txt", "--splits", folder / "splits.txt", "--split", str(split),
               "--label", str(label), "--json", *COMMON, *OPTIONS.get(folder.name, [])]
    if "--lr" in OPTIONS.get(folder.name, []):
        at = command.index("--lr")
        del command[at:at + 2]
    if dropped:
        command += ["--drop", ",".join(map(str, dropped))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout)["rmse"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yoke", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=sorted(OPTIONS))
    arguments = parser.parse_args()
    if not arguments.data.exists():
        print(f"skipped: no data in {arguments.data}")
        sys.exit(77)
    worse = []
    print(f"{'set':18} {'splits':>6} {'yoke':>10} {'linear':>10} {'ratio':>6}")
    for name in arguments.sets:
        folder = arguments.data / name
        values = numpy.loadtxt(folder / "data.txt")
        orders = numpy.loadtxt(folder / "splits.txt", dtype=int, ndmin=2)[:arguments.splits]
        label, dropped = COLUMNS.get(name, (values.shape[1] - 1, []))
        ours = numpy.mean([yoke_rmse(arguments.yoke, folder, i, label, dropped) for i in range(len(orders))])
        theirs = numpy.mean([linear_rmse(values, order, label, dropped) for order in orders])
        print(f"{name:18} {len(orders):6} {ours:10.5g} {theirs:10.5g} {ours / theirs:6.2f}", flush=True)
        if not ours < theirs:
            worse.append(name)
    if worse:
        sys.exit("not better than a linear model: " + ", ".join(worse))


if __name__ == "__main__":
    main()
