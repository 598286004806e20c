#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first inputs of the fuzzers: seeds.py OUTPUT BUILD FUZZER... Programs from the corpus and the sources of the tests, the first bytes of plugins, traces."""

import glob
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = "yoke.program 1\nprogram p(symbol s in 0..4) {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] + f32(s)\n}\n"
HEAD = 4096  # bytes of a plugin: headers and notes
TRACE = 12288  # bytes of a trace: small inputs run faster, and a truncated one is read up to its end


def programs():
    for path in glob.glob(os.path.join(ROOT, "tests", "**", "*.cpp"), recursive=True) + glob.glob(
            os.path.join(ROOT, "tests", "**", "*.h"), recursive=True):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        yield from re.findall(r'R"\w*\((yoke\.program 1\n.*?)\)\w*"', text, flags=re.S)
    for path in glob.glob(os.path.join(ROOT, "plugin_api", "program", "corpus", "*.yoke")):
        with open(path, encoding="utf-8") as file:
            yield file.read()


def plugins(build):
    for pattern in ("lib/yoke/*.so", "tests/**/plugins/**/*.so"):
        for path in sorted(glob.glob(os.path.join(build, pattern), recursive=True)):
            with open(path, "rb") as file:
                yield file.read(HEAD)


def traces(build):
    """Traces of a small program and of the start of a training; none when the command is not built."""
    yoke = os.path.join(build, "bin", "yoke")
    if not os.path.exists(yoke):
        return
    with tempfile.TemporaryDirectory() as folder:
        program, trace = os.path.join(folder, "program"), os.path.join(folder, "trace")
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        runs = [["program", program, "--run", "--backend", "null"], ["train", "--epochs", "1", "--backend", "null"]]
        for data, run in itertools.product(("0", "1"), runs):
            try:
                subprocess.run([yoke, "--layers", "trace", *run], check=False, timeout=60,
                               env={**os.environ, "YOKE_TRACE_FILE": trace, "YOKE_TRACE_DATA": data}, capture_output=True)
            except subprocess.TimeoutExpired:
                print("fuzz: recording took more than a minute; using the part that was written", file=sys.stderr)
            if os.path.exists(trace):
                with open(trace, "rb") as file:
                    yield file.read(TRACE)
                os.remove(trace)


def write(folder, inputs):
    shutil.rmtree(folder, ignore_errors=True)  # times differ in every trace, so old ones would accumulate
    os.makedirs(folder)
    for data in inputs:
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), "wb") as file:
            file.write(data)


def main():
    output, build, *names = sys.argv[1:]
    for name in names:
        if name == "program_text":
            inputs = [text.encode() for text in programs()]
        elif name == "plugin_notes":
            inputs = plugins(build)
        else:
            inputs = traces(build)
        write(os.path.join(output, name), inputs)


if __name__ == "__main__":
    main()
