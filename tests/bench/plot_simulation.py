#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bin/simulate prints: milliseconds of a step's merge, update and publish, by members and strategy.

    build/bin/simulate --json | tests/bench/plot_simulation.py FILE.svg

Needs matplotlib (Debian: python3-matplotlib)."""
import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plot_simulation.py: matplotlib is missing; install python3-matplotlib")
matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "yoke"  # the same file from the same numbers
matplotlib.rcParams["svg.fonttype"] = "none"
from matplotlib import pyplot  # noqa: E402


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    rows = json.load(sys.stdin)
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6))
    for strategy in ("direct", "owner", "tree", "ring"):
        points = [(row["members"], row[strategy]) for row in rows if not isinstance(row[strategy], str)]
        axes.plot(*zip(*points), marker="o", label=strategy)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("members")
    axes.set_ylabel("milliseconds a step")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(sys.argv[1], metadata={"Date": None})


main()
