#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/bench/merge_peers.py: times all-reduces of two shards on cc beside Gloo and Open MPI between two processes.
"""Times all-reduces of f32 tensors from 1 KiB to 64 MiB: of two shards on the backend cc (merge_bench), and of two
processes with Gloo (PyTorch's, in the Python that YOKE_PEER_PYTHON names, default python3) and with Open MPI (mpicc and
mpirun). All run in turns; the best time of each counts. Prints the times, and how many times as fast yoke is. Exits with
1 if that is below --limit for a size, and with 77 if no peer is installed."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIP = 77

GLOO = """
import json, os, sys, time
import torch, torch.distributed as dist
from datetime import timedelta
rank, folder, sizes, rounds = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 2), rank=rank, world_size=2,
                        timeout=timedelta(seconds=60))
best = {}
for size in sizes:
    tensor = torch.ones(size // 4)
    dist.all_reduce(tensor)
    assert tensor[-1] == 2
    times = []
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        times.append(time.perf_counter() - start)
        tensor.fill_(1)
    best[size] = min(times) * 1e6
if rank == 0:
    print(json.dumps(best))
dist.destroy_process_group()
"""

MPI = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int rounds = atoi(argv[1]);
  if (rank == 0) printf("{");
  for (int k = 2; k < argc; ++k) {
    const int bytes = atoi(argv[k]);
    float* data = malloc(bytes);
    float* sum = malloc(bytes);
    for (int i = 0; i < bytes / 4; ++i) data[i] = 1;
    double best = 1e9;
    for (int round = 0; round <= rounds; ++round) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      MPI_Allreduce(data, sum, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      const double seconds = MPI_Wtime() - start;
      if (round > 0 && seconds < best) best = seconds;
    }
    if (sum[bytes / 4 - 1] != 2) return 1;
    if (rank == 0) printf("%s\"%d\": %f", k == 2 ? "" : ", ", bytes, best * 1e6);
    free(data);
    free(sum);
  }
  if (rank == 0) printf("}\n");
  MPI_Finalize();
  return 0;
}
"""


def output_of(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    if result.returncode != 0:
        sys.exit(f"merge_peers: {command[0]} failed:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def yoke_times(bench, rounds):
    return {row["bytes"]: row["all_reduce_us"] for row in output_of([bench, "--rounds", str(rounds), "--json"])}


def gloo_times(python, sizes, rounds):
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", GLOO]
        arguments = [folder, json.dumps(sizes), str(rounds)]
        other = subprocess.Popen([*command, "1", *arguments])
        try:
            return {int(size): us for size, us in output_of([*command, "0", *arguments]).items()}
        finally:
            other.wait(timeout=60)


def mpi_times(program, sizes, rounds):
    command = ["mpirun", "-n", "2", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
               program, str(rounds), *map(str, sizes)]
    return {int(size): us for size, us in output_of(command).items()}


def peers_of(python, folder, sizes, rounds):
    peers = {}
    if shutil.which(python) and subprocess.run([python, "-c", "import torch.distributed"], capture_output=True).returncode == 0:
        peers["Gloo"] = lambda: gloo_times(python, sizes, rounds)
    if shutil.which("mpicc") and shutil.which("mpirun"):
        source = pathlib.Path(folder, "all_reduce.c")
        source.write_text(MPI)
        program = str(source.with_suffix(""))
        subprocess.run(["mpicc", "-O2", str(source), "-o", program], check=True, timeout=120)
        peers["Open MPI"] = lambda: mpi_times(program, sizes, rounds)
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/merge_bench", help="default build/bin/merge_bench")
    parser.add_argument("--turns", type=int, default=3, help="runs of each program, default 3")
    parser.add_argument("--rounds", type=int, default=200, help="all-reduces of each size in a run, default 200")
    parser.add_argument("--limit", type=float, default=0, help="fail if yoke is not this many times as fast")
    options = parser.parse_args()
    if not os.access(options.bench, os.X_OK):
        parser.error(f"{options.bench} is not a program; build it with ./quickstart build")
    sizes = list(yoke_times(options.bench, 4))
    with tempfile.TemporaryDirectory() as folder:
        peers = peers_of(os.environ.get("YOKE_PEER_PYTHON", "python3"), folder, sizes, options.rounds)
        if not peers:
            print("skipped: neither torch nor mpicc and mpirun are installed")
            return SKIP
        runs = {"yoke": lambda: yoke_times(options.bench, options.rounds), **peers}
        best = {name: dict.fromkeys(sizes, float("inf")) for name in runs}
        for _ in range(options.turns):
            for name, run in runs.items():
                for size, us in run().items():
                    best[name][size] = min(best[name][size], us)
    worst = float("inf")
    for size in sizes:
        line = f"{size:9} bytes: yoke {best['yoke'][size]:9.1f} us"
        for name in peers:
            ratio = best[name][size] / best["yoke"][size]
            worst = min(worst, ratio)
            line += f"; {name} {best[name][size]:9.1f} us, {ratio:.1f} times as long"
        print(line)
    return 1 if worst < options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
