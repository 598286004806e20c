# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu/run_test.py: tests of run.py without a GPU: on programs that stand for yoke's, and on the fakes.
"""run_test.py BUILD [FAKES]: with the folder of the fakes (tests/fake_gpu), also packs the programs of BUILD and runs them."""
import argparse
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers
import run as subject

BUILD, FAKES = None, None


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class Case(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        self.file = self.folder / "results.json"

    def run_of(self, seconds=60, **options):
        options = argparse.Namespace(**{"backend": "hip", "programs": 3, "minutes": seconds / 60, "small": False, "step": None, **options})
        run = subject.Run(options, subject.Report(self.file, "a GPU"), self.folder, dict(os.environ), self.folder)
        run.deadline = time.monotonic() + seconds
        return run

    def results(self):
        return json.loads(self.file.read_text())

    def rows(self):
        return {row["name"]: row for row in self.results()["rows"]}


class StepsTest(Case):
    def test_steps_run_after_one_fails_or_times_out(self):
        seen = []

        def fail(run):
            raise ValueError("no such thing")

        def sleep(run):
            seen.append((run.command(["sh", "-c", "sleep 60 & echo started; wait"]), self.rows()["first"]["text"]))

        steps = subject.steps_of
        self.addCleanup(setattr, subject, "steps_of", steps)
        subject.steps_of = lambda options: [("first", 240, fail), ("second", 300, sleep),
                                            ("third", 480, lambda run: run.report.add("third", True, "done"))]
        start = time.monotonic()
        subject.measure(self.run_of(seconds=4))
        self.assertLess(time.monotonic() - start, 30)
        done, text_before = seen[0]
        self.assertEqual((done.returncode, done.stdout), (124, "started\n"))
        self.assertEqual(text_before, "ValueError: no such thing")
        self.assertEqual({name: row["ok"] for name, row in self.rows().items()}, {"first": False, "third": True})
        self.assertEqual([step["name"] for step in self.results()["steps"]], ["first", "second", "third"])

    def test_steps_end_in_order_and_only_those_asked_for_run(self):
        ends = [end for _, end, _ in subject.steps_of(argparse.Namespace(backend="cuda", programs=3))]
        self.assertEqual((ends, ends[-1]), (sorted(ends), 480))
        subject.measure(self.run_of(step=["kit"]))
        self.assertEqual([step["name"] for step in self.results()["steps"]], ["conformance kit"])


    def test_sigterm_stops_running_programs(self):
        for name in ("nvidia-smi", "python3"):
            write_program(self.folder / "tools" / name, "echo A GPU")
        write_program(self.folder / "bin" / "gpu_bench", f"echo $$ > {self.folder}/pid; exec sleep 60")
        script = f"import sys; sys.path.insert(0, {str(pathlib.Path(subject.__file__).parent)!r}); import run; run.build = print; run.main()"
        process = subprocess.Popen([sys.executable, "-B", "-c", script, "--build", self.folder, "--step", "timings"],
                                   env={**os.environ, "PATH": f"{self.folder}/tools:{os.environ['PATH']}"}, stdout=subprocess.DEVNULL)
        while not (self.folder / "pid").exists() or not (self.folder / "pid").read_text().endswith("\n"):
            time.sleep(0.05)
            self.assertIsNone(process.poll())
        process.terminate()
        self.assertEqual(process.wait(30), 1)
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text()), 0)


class TimingsTest(Case):
    def test_cases_after_one_that_crashes_or_loses_the_device_are_measured(self):
        row = '{"name": "NAME", "missing": "", "lost": false, "value": 1, "unit": "us", "detail": "", "bar": 2, "at_least": AT, "met": MET}'
        good = row.replace("NAME", "good").replace("AT", "false").replace("MET", "true")
        bad = row.replace("NAME", "bad").replace("AT", "true").replace("MET", "false")
        write_program(self.folder / "bin" / "gpu_bench", f"""case "$*" in
            *"--first 0"*) echo '{good}'; echo broken >&2; kill -SEGV $$ ;;
            *"--first 2"*) echo '{{"name": "lost", "missing": "gone", "lost": true}}'; exit 3 ;;
            *"--first 3"*) echo '{bad}'; echo '{{"device": "a GPU"}}'; exit 1 ;;
            esac""")
        run = self.run_of()
        subject.timings(run)
        rows = self.rows()
        self.assertEqual([(row["name"], row["ok"]) for row in rows.values()],
                         [("good", True), ("case 2", False), ("lost", False), ("bad", False)])
        self.assertIn("broken", rows["case 2"]["text"])
        self.assertEqual([command["status"] for command in self.results()["commands"]], [-11, 3, 1])
        self.assertEqual(self.results()["commands"][0]["stderr"], "broken\n")
        self.assertEqual(list(run.missed), ["bad"])

    def test_rows_before_the_time_limit_are_kept(self):
        write_program(self.folder / "bin" / "gpu_bench", 'echo \'{"name": "slow", "missing": "why", "lost": false}\'; exec sleep 60')
        subject.timings(self.run_of(seconds=1))
        self.assertEqual({name: row["ok"] for name, row in self.rows().items()}, {"timings: hip": False, "slow": None})

    def test_a_device_that_stays_lost_ends_the_timings(self):
        write_program(self.folder / "bin" / "gpu_bench", """case "$*" in
            *"--first 0"*) echo '{"name": "lost", "missing": "gone", "lost": true}'; exit 3 ;;
            esac
            echo no device >&2; exit 2""")
        subject.timings(self.run_of())
        self.assertEqual({name: row["text"] for name, row in self.rows().items()},
                         {"timings: hip": "no device", "lost": "gone", "case 2": "no device"})

    def test_a_program_that_cannot_start_fails_once(self):
        write_program(self.folder / "bin" / "gpu_bench", "echo no device >&2; exit 2")
        subject.timings(self.run_of())
        self.assertEqual({name: row["text"] for name, row in self.rows().items()}, {"timings: hip": "no device"})


class PeersTest(Case):
    def measure(self, script, seconds=20):
        peer = peers.Peer(sys.executable, script, ["word"], True)
        self.addCleanup(peer.close)
        peer.wait_until_ready(time.monotonic() + seconds)
        return peer.measure(time.monotonic() + seconds)

    def test_a_peer_waits_for_its_turn_and_gives_a_figure(self):
        script = "import sys\nopen(sys.argv[1], 'w').close()\nprint(sys.argv[2:])\nassert sys.stdin.readline() == 'go\\n'\nprint(2.5)"
        self.assertEqual(self.measure(script), (2.5, ""))

    def test_the_error_of_a_peer_is_reported(self):
        self.assertEqual(self.measure("raise ValueError('bad model')"), (None, "PyTorch failed: ValueError: bad model"))
        self.assertEqual(self.measure("import time; time.sleep(60)", 0.2)[1][:21], "PyTorch was not ready")


class PackedTest(Case):
    def test_packed_programs_run_where_nothing_is_built(self):
        if not FAKES:
            self.skipTest("the fakes are not built")
        script = str(pathlib.Path(subject.__file__))
        archive = self.folder / "yoke.tar.xz"
        subject.programs.pack(BUILD, archive)
        write_program(self.folder / "tools" / "nvidia-smi", "echo A GPU")
        driver = f"{FAKES}/cuda/libcuda.so.1"
        environment = {**os.environ, "PATH": f"{self.folder}/tools:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.folder),
                       "LD_LIBRARY_PATH": f"{FAKES}/cuda", "YOKE_CUDA_LIBRARY": driver, "YOKE_CUBLASLT_LIBRARY": driver,
                       "YOKE_CUDNN_LIBRARY": driver, "YOKE_NVRTC_LIBRARY": f"{FAKES}/cuda/libnvrtc.so.13"}
        words = ["--prebuilt", archive, "--small", "--json", self.file, "--step", "parity", "--step", "MNIST"]
        done = subprocess.run([sys.executable, "-B", script, *words], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([row["ok"] for row in self.results()["rows"]], [True, True, None, None])
        # The kernels of a figure that misses its bar.
        run = self.run_of(backend="cuda", small=True)
        run.folder = self.folder / "programs"
        subject.programs.unpack(archive, run.folder)
        run.environment = {**environment, "LD_LIBRARY_PATH": f"{run.folder}/lib:{FAKES}/cuda"}
        for name in subject.programs.FILES:
            found = subprocess.run(["ldd", run.folder / name], env=run.environment, capture_output=True, text=True, check=True).stdout
            outside = [line.split()[0] for line in found.splitlines() if "=>" in line and str(run.folder) not in line]
            self.assertEqual([library for library in outside if not subject.programs.OF_THE_TARGET.match(library)], [], name)
        run.missed = {"softmax": [run.folder / "bin" / "gpu_bench", "--small", "--only", "softmax gradient", "--option", "graphs=off"]}
        subject.kernels(run)
        kernels = self.rows()["kernels of softmax"]["kernels"]
        self.assertEqual([kernel["kernel"] for kernel in kernels], ["yoke_0"])
        self.assertGreater(kernels[0]["launches"], 1)


if __name__ == "__main__":
    BUILD, FAKES = sys.argv[1], (sys.argv[2:3] or [None])[0]
    unittest.main(argv=sys.argv[:1], verbosity=2)
