#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu/run.py: everything that needs a GPU, in one command.
"""Builds yoke, then, on the GPU of a backend: times the parts of training against their bars, compares training with the
backend cc, runs a short training under compute-sanitizer where it is installed, times MNIST and a GPT beside PyTorch where
it is installed, runs the conformance kit, and lists the kernels of figures that miss their bars. With cuda, repeats timings,
training and kit on hip over the CUDA driver. Prints a table, writes JSON after each row, and exits with 1 if a step fails or
a bar is missed, and with 77 if there is no GPU."""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import programs

SKIP = 77
ROOT = pathlib.Path(__file__).resolve().parents[3]
LONGEST_KERNELS = 25  # that are listed for a figure that misses its bar


def write_images(folder, count):
    """Files like MNIST's with random pixels, so that the timings need no download."""
    def idx(name, dims, data):
        header = bytes([0, 0, 8, len(dims)]) + b"".join(dim.to_bytes(4, "big") for dim in dims)
        (folder / name).write_bytes(header + data)
    for name, count in (("train", count), ("t10k", 1000)):
        idx(f"{name}-images-idx3-ubyte", [count, 28, 28], random.Random(count).randbytes(count * 784))
        idx(f"{name}-labels-idx1-ubyte", [count], bytes(i % 10 for i in range(count)))


class Report:
    """The rows: name, whether it is met (None: not measured), text. The file always holds what is known so far."""

    def __init__(self, file, gpu):
        self.file = pathlib.Path(file) if file else None
        self.facts = {"date": time.strftime("%Y-%m-%d"), "gpu": gpu, "rows": [], "steps": [], "timings": {}, "commands": []}

    def add(self, name, ok, text, **more):
        self.facts["rows"].append({"name": name, "ok": ok, "text": text, **more})
        print(f"{'ok    ' if ok else 'missing' if ok is None else 'FAILED'} {name}: {text}", flush=True)
        self.write()

    def write(self):
        if self.file:
            part = self.file.with_name(self.file.name + ".part")
            part.write_text(json.dumps(self.facts, indent=1) + "\n")
            part.replace(self.file)


class Run:
    """What the steps share: options, programs, and the time at which the current step must end."""

    def __init__(self, options, report, folder, environment, data):
        self.options, self.report, self.folder, self.environment, self.data = options, report, folder, environment, data
        self.yoke, self.bench = folder / "bin" / "yoke", folder / "bin" / "gpu_bench"
        self.python, self.no_peer = None, "not compared"
        self.peers, self.missed = {}, {}  # missed: by name, the words of a command that runs its kernels
        self.deadline = 0

    def command(self, words, environment=None):
        """Like subprocess.run. When the step's time is up, SIGINT lets the command report before it is killed."""
        words = [str(word) for word in words]
        start = time.monotonic()
        if start >= self.deadline:
            return subprocess.CompletedProcess(words, 124, "", "not run: the time of this step is used up")
        with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                       env=environment or self.environment, start_new_session=True)
            late = ""
            try:
                process.wait(self.deadline - start)
            except subprocess.TimeoutExpired:
                late = f"\ndid not finish within {self.deadline - start:.0f} s"
                peers.stop(process, signal.SIGINT)
            except BaseException:
                peers.stop(process)
                raise
            output.seek(0)
            errors.seek(0)
            done = subprocess.CompletedProcess(words, 124 if late else process.returncode, output.read(), errors.read() + late)
        most = 2000 if done.returncode == 0 else 20000
        self.report.facts["commands"].append({"words": words, "status": done.returncode, "seconds": round(time.monotonic() - start, 1),
                                              "stdout": done.stdout[-most:], "stderr": done.stderr[-most:]})
        return done

    def bar(self, name, met, text, words=None):
        """A row with a bar. `words`: a command of yoke that runs its kernels. Tiny sizes meet every bar."""
        if not met and words not in self.missed.values():
            self.missed[name] = words
        self.report.add(name, met or self.options.small, text)


def last_line(run):
    lines = (run.stdout + run.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit status {run.returncode}"


def gpu_of(backend):
    """A text that describes the GPU, or None and why there is none."""
    if backend == "cuda" or "YOKE_HIP_LIBRARY" in os.environ:  # hip on the CUDA driver: tests/hip_on_cuda
        if not shutil.which("nvidia-smi"):
            return None, "nvidia-smi is missing; install the NVIDIA driver"
        words = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
        run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        return (run.stdout.strip(), "") if run.returncode == 0 and run.stdout.strip() else (None, last_line(run))
    return ("/dev/kfd", "") if os.path.exists("/dev/kfd") else (None, "/dev/kfd is missing; load the amdgpu driver")


def rows_of(run, backend, *words, environment=None):
    """The rows of gpu_bench by name. A case that ends the program, or loses the device, is reported; the others run."""
    rows, device, idle = {}, None, 0  # idle: runs in succession that measured nothing
    small = ["--small"] if run.options.small else []
    while device is None:
        done = run.command([run.bench, "--backend", backend, "--json", "--first", len(rows), *small, *words], environment)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{") and line.endswith("}")]
        device = next((line for line in found if "device" in line), None)
        found = {line["name"]: line for line in found if "name" in line}
        rows.update(found)
        idle = 0 if found else idle + 1
        if device is None and (done.returncode == 124 or not rows or idle == 2):
            run.report.add(f"timings: {backend}", False, last_line(done))
            break
        if device is None and not any(row.get("lost") for row in found.values()):
            rows[f"case {len(rows) + 1}"] = {"name": f"case {len(rows) + 1}", "missing": last_line(done), "lost": True}
    return rows, device


def timings(run):
    rows, device = rows_of(run, run.options.backend)
    run.report.facts["timings"] = {"device": device, "rows": list(rows.values())}
    for name, row in rows.items():
        if row["missing"]:
            run.report.add(name, False if row.get("lost") else None, row["missing"])
            continue
        bar = f" (bar {'>=' if row['at_least'] else '<='} {row['bar']})" if "bar" in row else ""
        small = ["--small"] if run.options.small else []
        run.bar(name, row.get("met", True), f"{row['value']:.3g} {row['unit']}{bar} {row['detail']}",
                [run.bench, "--backend", run.options.backend, "--option", "graphs=off", "--only", name, *small])


def start_peers(run):
    run.python, found = peers.find_python(run.options.small)
    if run.python is None:
        run.no_peer = found
        return
    run.report.facts["peer"] = found
    print(found, flush=True)
    for script, words in ((peers.MNIST, "eager"), (peers.MNIST, "compiled"), (peers.GPT, "f32"), (peers.GPT, "bf16")):
        run.peers[words] = peers.Peer(run.python, script, [words], run.options.small)


def train(run, backend, words, environment=None):
    """The report of a training run, or None and the reason."""
    done = run.command([run.yoke, "train", "--backend", backend, "--shards", "1", "--json", *words], environment)
    try:
        return json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None, last_line(done)
    except (IndexError, ValueError) as error:
        return None, str(error)


def parity(run, backend, environment=None):
    name = "training equals cc" + (": hip over the shim" if environment else "")
    words = ["--data", run.data, "--model", "mlp:64", "--batch", "100", "--epochs", "2", "--lr", "0.1"]
    mine, why = train(run, backend, words, environment)
    peer, why_not = train(run, "cc", words)
    if mine is None or peer is None:
        run.report.add(name, False, why if mine is None else "cc: " + why_not)
        return
    mine, peer = mine["train_loss"], peer["train_loss"]
    run.report.add(name, abs(mine - peer) / max(abs(peer), 1e-9) < 1e-3, f"loss {mine:.6f}, on cc {peer:.6f}")


def sanitizer(run):
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not program:
        run.report.add("compute-sanitizer", None, "not installed")
        return
    done = run.command([program, "--error-exitcode", "9", run.yoke, "train", "--backend", run.options.backend, "--epochs", "1",
                        "--batch", "600"])
    run.report.add("compute-sanitizer", done.returncode == 0, last_line(done))


def wait_for_peers(run):
    for peer in run.peers.values():
        peer.wait_until_ready(run.deadline)


def mnist(run):
    words = ["--data", run.data, "--model", "mlp:500", "--batch", "32", "--epochs", "3", "--lr", "0.1"]
    mine, why = train(run, run.options.backend, words)
    if mine is None:
        run.report.add("MNIST, batch 32", False, why)
        return
    step = 32 / mine["examples_per_second"]
    for mode, bar in (("eager", 0.5), ("compiled", 1.0)):
        name = f"MNIST 784-500-10, batch 32, of PyTorch {mode}"
        peer, why = run.peers[mode].measure(run.deadline) if mode in run.peers else (None, run.no_peer)
        if peer is None:
            run.report.add(name, None, f"{step * 1e6:.1f} us a step; {why}")
        else:
            run.bar(name, step / peer <= bar, f"{step / peer:.2f} (bar {bar}), {step * 1e6:.1f} of {peer * 1e6:.1f} us",
                    [run.yoke, "train", "--backend", run.options.backend, "--option", "graphs=off", "--shards", "1", *words])


def gpt(run):
    """Tokens per second of a GPT compared with torch.compile, in f32, in bf16 and, for cuda, in bf16 with attention by
    fused kernels and by cuDNN."""
    small = run.options.small
    layers, heads, width, context, batch = (1, 2, 32, 16, 2) if small else (12, 12, 768, 1024, 8)
    draw = random.Random(1)
    text = run.data / "text.txt"
    text.write_text("".join(chr(32 + draw.randrange(65)) for _ in range(batch * 10 * (context + 1))), encoding="utf-8")
    half = ["--precision", "bf16"]
    ways = [("f32", "", []), ("bf16", "", half)]
    if run.options.backend == "cuda":
        ways.append(("bf16", " with fused attention", [*half, "--option", "fused_attention=on"]))
        ways.append(("bf16", " with attention by cuDNN", [*half, "--option", "vendor_attention=on"]))
    found = {}
    for kind, way, more in ways:
        name = f"GPT 12 x 12 x 768, context 1024, batch 8, AdamW, {kind}{way}: tokens/s of torch.compile"
        words = ["--data", text, "--model", f"gpt:layers={layers},heads={heads},width={width},context={context}", "--batch", batch,
                 "--optimizer", "adamw", "--lr", "3e-4", "--epochs", "2", *more]
        mine, why = train(run, run.options.backend, words)
        if kind not in found:
            found[kind] = run.peers[kind].measure(run.deadline) if kind in run.peers else (None, run.no_peer)
        peer, why_not = found[kind]
        if mine is None:
            run.report.add(name, False, why)
            continue
        tokens = context * mine["history"][-1]["examples_per_second"]  # of the second of two epochs of 9 steps
        if peer is None:
            run.report.add(name, None, f"{tokens:.0f} tokens/s; {why_not}")
        else:
            run.bar(name, tokens >= peer, f"{100 * tokens / peer:.0f} % (bar 100 %), {tokens:.0f} of {peer:.0f} tokens/s",
                    [run.yoke, "train", "--backend", run.options.backend, "--option", "graphs=off", "--shards", "1", *words])


def kit(run, backend, count, environment=None):
    plugin = run.folder / "lib" / "yoke" / f"libyoke_backend_{backend}.so"
    small = ["--filter", "copy.*", "--filter", "program.random-*"] if run.options.small else []
    done = run.command([run.folder / "bin" / "yoke-conformance", plugin, "--programs", count, "--seed", 1, "--timeout", 60, *small], environment)
    name = "conformance kit" + (": hip over the shim" if environment else "")
    run.report.add(name, done.returncode == 0, last_line(done))


def kernels(run):
    """Lists the kernels of figures that miss their bars: times, registers, spilled bytes. Graphs are off meanwhile."""
    if run.options.backend != "cuda":
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, words) in enumerate(run.missed.items()):
            file = pathlib.Path(folder) / f"{number}.json"
            done = run.command(words, {**run.environment, "YOKE_KERNEL_TIMES": str(file),
                                       "YOKE_CUDA_LIBRARY": str(run.folder / "tests" / "bench" / "libkernel_times.so")})
            if not file.exists():
                run.report.add(f"kernels of {name}", None, last_line(done))
                continue
            found = sorted((json.loads(line) for line in file.read_text().splitlines()), key=lambda row: -row["total_us"])
            texts = [f"{row['kernel']} {row['launches']} x {row['mean_us']:.1f} us" for row in found[:3]]
            run.report.add(f"kernels of {name}", None, "; ".join(texts) or "none", kernels=found[:LONGEST_KERNELS])


def shim_environment(run):
    """The variables with which the plugin hip runs on the CUDA driver (tests/hip_on_cuda)."""
    shim = str(run.folder / "tests" / "hip_on_cuda" / "libamdhip64.so.6")
    return {**run.environment, "YOKE_HIP_LIBRARY": shim, "YOKE_HIPRTC_LIBRARY": shim, "YOKE_HIPBLASLT_LIBRARY": "/nonexistent.so"}


def compare_with_shim(run):
    """Every timing of hip over the shim is within 5 % of that of cuda; both without the vendor's library. The shim's devices
    have no matrix units, so products and attention in bf16 are not compared."""
    mine, _ = rows_of(run, "cuda", "--option", "vendor=off")
    others, _ = rows_of(run, "hip", "--option", "vendor=off", environment=shim_environment(run))
    for name, row in mine.items():
        other = others.get(name, {"missing": "no such row"})
        if name.startswith("bf16 "):
            run.report.add(f"hip over the shim: {name}", None, "devices of the shim have no matrix units")
            continue
        if row["missing"] or other["missing"]:
            run.report.add(f"hip over the shim: {name}", False if other.get("lost") else None, row["missing"] or other["missing"])
            continue
        slower = row["value"] / other["value"] if row.get("at_least") else other["value"] / row["value"]
        run.report.add(f"hip over the shim: {name}", slower <= 1.05 or run.options.small,
                       f"{slower:.3f} of the time of cuda (bar 1.05)", cuda=row["value"], hip=other["value"])


def steps_of(options):
    """The steps, and the seconds of 8 minutes by which each must end: later steps may use the time that a step leaves. PyTorch
    prepares while steps run that time nothing."""
    backend, count = options.backend, options.programs
    steps = [("timings", 80, timings), ("start PyTorch", 100, start_peers), ("parity", 120, lambda run: parity(run, backend)),
             ("sanitizer", 160, sanitizer)]
    if backend == "cuda":
        steps += [("parity of hip over the shim", 175, lambda run: parity(run, "hip", shim_environment(run)))]
    steps += [("wait for PyTorch", 200, wait_for_peers), ("MNIST", 220, mnist), ("GPT", 270, gpt),
              ("conformance kit", 350, lambda run: kit(run, backend, count)), ("kernels", 380, kernels)]
    if backend == "cuda":
        steps += [("timings of hip over the shim", 420, compare_with_shim),
                  ("conformance kit of hip over the shim", 480, lambda run: kit(run, "hip", count // 3, shim_environment(run)))]
    return steps


def measure(run):
    begin = time.monotonic()
    try:
        for name, end, step in steps_of(run.options):
            if not any(text in name for text in run.options.step or [name]):
                continue
            start = time.monotonic()
            run.deadline = begin + end * run.options.minutes / 8
            try:
                step(run)
            except Exception as error:  # pylint: disable=broad-except
                run.report.add(name, False, f"{type(error).__name__}: {error}")
            run.report.facts["steps"].append({"name": name, "seconds": round(time.monotonic() - start, 1)})
            run.report.write()
    finally:
        for name, peer in run.peers.items():
            run.report.facts["commands"].append({"words": ["PyTorch", name], "stderr": peer.output.read_text(errors="replace")[-20000:]})
            peer.close()
        run.report.write()


def build(folder):
    targets = ["yoke", "yoke_probe", "yoke_backend_cc", "yoke_backend_cuda", "yoke_backend_hip", "yoke-conformance", "gpu_bench",
               "hip_on_cuda", "kernel_times"]
    start = time.monotonic()
    for words in (["--preset", "release", "-B", folder, "-DYOKE_UNITY=ON"], ["--build", folder, "--parallel", "--target", *targets]):
        done = subprocess.run(["cmake", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit("run.py: cannot build yoke:\n" + (done.stdout + done.stderr)[-2000:])
    print(f"built in {time.monotonic() - start:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=["cuda", "hip"], default="cuda")
    parser.add_argument("--build", default=str(ROOT / "build"), metavar="FOLDER", help="build folder; default build")
    parser.add_argument("--pack", metavar="FILE", help="build, write the programs and their libraries to FILE (.tar.xz), and stop")
    parser.add_argument("--prebuilt", metavar="FILE", help="use the programs in FILE, written by --pack; build nothing")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file, after each row")
    parser.add_argument("--programs", type=int, default=300, help="random programs of the conformance kit; default 300")
    parser.add_argument("--minutes", type=float, default=8, help="time limit of all measurements; default 8")
    parser.add_argument("--step", action="append", metavar="TEXT", help="run only steps whose names contain TEXT, such as timings, "
                        "parity, sanitizer, kit, kernels, shim; to compare MNIST and GPT with PyTorch, add --step PyTorch; may be repeated")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to test the command itself; the figures mean nothing")
    options = parser.parse_args()
    if options.pack:
        build(options.build)
        programs.pack(options.build, options.pack)
        print(f"{options.pack}: {os.path.getsize(options.pack) / 2**20:.1f} MiB")
        return 0
    if options.prebuilt and not os.path.exists(options.prebuilt):
        parser.error(f"--prebuilt: {options.prebuilt} does not exist; write it with --pack")
    gpu, why = gpu_of(options.backend)
    if gpu is None:
        print(f"skipped: no GPU: {why}")
        return SKIP
    print(gpu, flush=True)
    more = programs.pip_folders([os.environ.get("YOKE_PEER_PYTHON"), sys.executable, "python3"])
    print("\n".join("libraries of " + name for name in more), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs is stopped too
    report = Report(options.json, gpu)
    with tempfile.TemporaryDirectory() as folder:
        data, unpacked = pathlib.Path(folder) / "data", pathlib.Path(folder) / "programs"
        data.mkdir()
        write_images(data, 640 if options.small else 60000)
        if options.prebuilt:
            programs.unpack(options.prebuilt, unpacked)
        else:
            build(options.build)
        used = unpacked if options.prebuilt else pathlib.Path(options.build).resolve()
        measure(Run(options, report, used, programs.environment(used, more), data))
    return 0 if all(row["ok"] is not False for row in report.facts["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
