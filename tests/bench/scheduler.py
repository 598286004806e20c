#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the scheduler costs, compared with its goals.

    tests/bench/scheduler.py [--bin build/bin] [--data DIR] [--rounds 5] [--only ROW] [--json]

On the backend null, for each strategy, by step_bench. Times are of all cores together, so that other load changes them
little:
  step         a step of 2 shards with 20 launches each and 64 f32 elements, so that null copies few bytes: at most 15
               microseconds
  parameters   that step with 32,000 elements: its time with 500 parameters / with 1, at most 1.2
  growth       a step of 256 shards / of 64 shards, 1 launch each, 64 elements: at most 4.5
  instructions the same, in executed instructions, with valgrind if it is installed: growth without misses of the cache
  setup        setting up 1,024 shards: at most 2 seconds
On cc, with the MNIST files in DIR, by yoke train:
  cores        40 steps by 2 shards with 1 thread / by 1 shard with 2 threads, batch 500: at most 1.1
merge_bench measures the sums of cc themselves. Each figure is the best of the rounds, which take turns. Exits with 1 if
a goal is missed."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

STRATEGIES = ["direct", "owner", "tree", "ring"]
NETS = ["500", "1024-1024-1024"]


def output_of(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


class Measurements:
    """Runs that are compared with each other: each round runs all of them once."""

    def __init__(self):
        self.runs = {}
        self.best = {}

    def add(self, key, run):
        self.runs[key] = run
        self.best[key] = float("inf")

    def run(self, rounds):
        for number in range(rounds):
            for key, run in self.runs.items():
                if sys.stderr.isatty():
                    print(f"\r\033[Kround {number + 1} of {rounds}: {key}", end="", file=sys.stderr, flush=True)
                self.best[key] = min(self.best[key], run())
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def step_bench(options, figure, **settings):
    command = [os.path.join(options.bin, "step_bench"), "--json"]
    return lambda: output_of(command + [word for name, value in settings.items()
                                        for word in (f"--{name}", str(value))])[figure]


def instructions(options, merge, shards):
    """Those of a step, from runs with different numbers of rounds, each of 8 steps."""
    def total(rounds):
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                   os.path.join(options.bin, "step_bench"), "--merge", merge, "--shards", str(shards),
                   "--launches", "1", "--elements", "64", "--rounds", str(rounds)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        found = re.search(r"Collected : (\d+)", result.stderr)
        if result.returncode != 0 or not found:
            sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
        return int(found.group(1))

    return (total(6) - total(2)) / (4 * 8)


def forty_steps(options, net, shards, threads):
    command = [os.path.join(options.bin, "yoke"), "train", "--backend", "cc", "--model", f"mlp:{net}", "--batch", "500",
               "--steps", "40", "--lr", "0.1", "--shards", str(shards), "--option", f"threads={threads}",
               "--data", options.data, "--json"]
    return lambda: 1 / output_of(command)["examples_per_second"]


def rows_of(options):
    """Yields (row, subject, value, unit, goal) of each goal, after measuring it."""
    wants = lambda row: options.only in (None, row)
    steps = Measurements()
    for merge in STRATEGIES:
        if wants("step"):
            steps.add((merge, "step"), step_bench(options, "cpu_us", merge=merge, elements=64))
        for parameters in (1, 500) if wants("parameters") else ():
            steps.add((merge, parameters), step_bench(options, "cpu_us", merge=merge, parameters=parameters))
        for shards in (64, 256) if wants("growth") else ():
            steps.add((merge, "shards", shards),
                      step_bench(options, "cpu_us", merge=merge, shards=shards, launches=1, elements=64, rounds=10))
        if wants("setup"):
            steps.add((merge, "setup"),
                      step_bench(options, "setup_seconds", merge=merge, shards=1024, elements=4000, rounds=1))
    steps.run(options.rounds)
    best = steps.best
    for merge in STRATEGIES:
        if wants("step"):
            yield "step", merge, best[merge, "step"], "us", 15
        if wants("parameters"):
            yield "parameters", merge, best[merge, 500] / best[merge, 1], "", 1.2
        if wants("growth"):
            yield "growth", merge, best[merge, "shards", 256] / best[merge, "shards", 64], "", 4.5
        if wants("instructions") and shutil.which("valgrind"):
            yield "instructions", merge, instructions(options, merge, 256) / instructions(options, merge, 64), "", 4.5
        if wants("setup"):
            yield "setup", merge, best[merge, "setup"], "s", 2
    if options.data and wants("cores"):
        trainings = Measurements()
        for net in NETS:
            trainings.add((net, 2), forty_steps(options, net, 2, 1))
            trainings.add((net, 1), forty_steps(options, net, 1, 2))
        trainings.run(options.rounds)
        for net in NETS:
            yield "cores", net, trainings.best[net, 2] / trainings.best[net, 1], "", 1.1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin", help="the folder of yoke and step_bench, default build/bin")
    parser.add_argument("--data", help="folder with the MNIST files; without it, cc is not measured")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each setting, default 5")
    parser.add_argument("--only", choices=["step", "parameters", "growth", "instructions", "setup", "cores"],
                        help="one row")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    options = parser.parse_args()
    for program in ["step_bench"] + ["yoke"] * bool(options.data):
        if not os.access(os.path.join(options.bin, program), os.X_OK):
            parser.error(f"{options.bin} has no program {program}; build it with ./quickstart build")
    if options.rounds < 1:
        parser.error("--rounds: use at least 1")
    if options.only == "cores" and not options.data:
        parser.error("--only cores: give the MNIST files with --data")
    rows = [{"row": row, "of": subject, "value": round(value, 3), "unit": unit, "goal": goal, "reached": value <= goal}
            for row, subject, value, unit, goal in rows_of(options)]
    if options.json:
        print(json.dumps(rows))
    else:
        print(f"{'row':12} {'of':15} {'value':>9}    {'goal':>5}")
        for row in rows:
            print(f"{row['row']:12} {row['of']:15} {row['value']:9.2f} {row['unit']:2} {row['goal']:5} "
                  f"{'' if row['reached'] else ' MISSED'}".rstrip())
    sys.exit(any(not row["reached"] for row in rows))


if __name__ == "__main__":
    main()
