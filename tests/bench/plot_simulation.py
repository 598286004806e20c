#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bin/simulate prints: milliseconds of a step's merge, update and publish, by members and strategy, with
circles around the choices of auto.

    build/bin/simulate --json | tests/bench/plot_simulation.py FILE.svg

Needs matplotlib (Debian: python3-matplotlib)."""
import json
import sys

if "-h" in sys.argv or "--help" in sys.argv:
    print(__doc__)
    sys.exit(0)
try:
    import matplotlib
except ImportError:
    sys.exit("plot_simulation.py: matplotlib is missing; install python3-matplotlib")
matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "yoke"  # the same file from the same numbers
matplotlib.rcParams["svg.fonttype"] = "none"
from matplotlib import pyplot  # noqa: E402


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = json.load(sys.stdin)
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6))
    for strategy in ("direct", "owner", "tree", "ring"):
        points = [(row["members"], row[strategy]) for row in rows if not isinstance(row[strategy], str)]
        if points:
            axes.plot(*zip(*points), marker="o", markersize=4, label=strategy)
    picked = [(row["members"], row[row["auto"]]) for row in rows if not isinstance(row[row["auto"]], str)]
    axes.plot(*zip(*picked), linestyle="", marker="o", markersize=11, fillstyle="none", color="black", label="auto")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("members")
    axes.set_ylabel("milliseconds per step")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(sys.argv[1], metadata={"Date": None})


main()
