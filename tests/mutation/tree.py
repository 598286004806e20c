# SPDX-License-Identifier: Apache-2.0
"""tests/mutation/tree.py: a copy of the source tree with planted mistakes, its build, and its tests."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = Path(__file__).resolve().parent / "alive.h"
MEMORY_LIMIT = 8 << 30  # bytes of address space per test, for mistakes that allocate without end


@dataclass
class TestRun:
    """One run of a test. `last_test`: the name of the GoogleTest test that failed or ran last, if any."""
    passed: bool
    seconds: float
    last_test: str
    reached: bytes


def render(source, mutants):
    """The text of `source` with all `mutants`, none of them alive. Lines keep their numbers."""
    text = source.text

    def plant(start, end, inner):
        parts, at = [], start
        while inner:
            first = inner[0]
            nested = [m for m in inner[1:] if m.start < first.end]
            inner = [m for m in inner[1:] if m.start >= first.end]
            parts.append(text[at:first.start])
            alive = f"::yoke_mutation::alive({first.number})"
            skip = getattr(first, "skip", 0)
            body = plant(first.start + skip, first.end, [m for m in nested if m.start >= first.start + skip])
            parts.append(first.before.replace("$", alive) + body + first.after.replace("$", alive))
            at = first.end
        return "".join(parts) + text[at:end]

    ordered = sorted(mutants, key=lambda m: (m.start, -m.end))
    return plant(0, len(text), ordered)


class Tree:
    """build-mutation/tree: the tracked and new files of the working tree, configured and built there."""

    def __init__(self, folder):
        self.folder = folder / "tree"
        self.build = self.folder / "build"

    def write(self, sources, mutants):
        """Copies files that changed, and writes sources with their mutants."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                                capture_output=True).stdout.decode().split("\0")
        planted = {}
        for source in sources:
            own = [m for m in mutants if m.path == source.path]
            if own:
                text = render(source, own)
                planted[source.path] = f'#include "{HEADER}"' + text[text.index("\n"):]  # in place of the license's line
        for name in filter(None, listed):
            original = ROOT / name
            if original.is_file():
                data = planted[name].encode() if name in planted else original.read_bytes()
                copy = self.folder / name
                if not copy.is_file() or copy.read_bytes() != data:
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(data)
                    copy.chmod(original.stat().st_mode)

    def compile(self, targets, options=()):
        """Returns the places of errors, as (path, line, column); empty if everything was built."""
        if not (self.build / "build.ninja").exists() or options:
            subprocess.run(["cmake", "--preset", "release", "-DYOKE_UNITY=ON", "-DYOKE_WERROR=OFF",
                            "-DCMAKE_LINK_DEPENDS_NO_SHARED=ON", *options], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL)
        done = subprocess.run(["ninja", "-k0", "-C", self.build, *targets], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        (self.folder.parent / "build.log").write_text(done.stdout)
        if done.returncode == 0:
            return []
        places, is_error = [], False
        for name, line, column, what in re.findall(
                r"^(\S+?):(\d+):(\d+): (error|warning|  required|note: in expansion of macro)", done.stdout, re.MULTILINE):
            is_error = what == "error" or (is_error and what.startswith("note"))  # a note after an error, not a warning
            path = (self.build / name).resolve()  # ccache makes names relative to the build
            if (is_error or what == "  required") and path.is_relative_to(self.folder):
                places.append((str(path.relative_to(self.folder)), int(line), int(column)))
        if not places:
            raise SystemExit("the build failed, but not because of a mistake:\n" + done.stdout[-3000:])
        return places

    def tests(self, expression, without):
        """The tests of ctest whose names match `expression` and not `without`, as {name: (command, folder, environment)}."""
        done = subprocess.run(["ctest", "--show-only=json-v1", "-R", expression, *(["-E", without] if without else [])],
                              cwd=self.build, check=True, capture_output=True, text=True)
        found = {}
        for test in json.loads(done.stdout)["tests"]:
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            name = test["name"].split("  # ")[0]
            if name.endswith("_NOT_BUILT") or "command" not in test:
                raise SystemExit(f"{name}: not built")
            found[name] = (test["command"], properties.get("WORKING_DIRECTORY", str(self.build)),
                           dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", [])))
        if not found:
            raise SystemExit(f"no test matches {expression}")
        return found

    def run(self, test, mutant, limit_s, record=0):
        """Runs one test. `record`: the size of the table of reached mutants."""
        command, folder, more = test
        environment = dict(os.environ, YOKE_MUTANT=str(mutant), **more)
        limited = ["bash", "-c", f'ulimit -c 0 -v {MEMORY_LIMIT >> 10}; exec nice -n 10 "$@"', "test", *command]
        with tempfile.NamedTemporaryFile() as reached, tempfile.TemporaryFile() as output:
            if record:
                Path(reached.name).write_bytes(bytes(record))
                environment["YOKE_MUTANTS_REACHED"] = reached.name
            began = time.monotonic()
            process = subprocess.Popen(limited, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                       start_new_session=True, stdout=output, stderr=subprocess.DEVNULL)
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = -1
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            seconds = time.monotonic() - began
            output.seek(0)
            names = re.findall(rb"^\[(?:  FAILED  | RUN      )\] ([\w./]+)", output.read(), re.MULTILINE)
            return TestRun(code == 0, seconds, names[-1].decode() if names else "", Path(reached.name).read_bytes())
