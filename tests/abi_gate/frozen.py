#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Released sources stay as they were released (rule 37): `check` holds frozen/ against its sums, `release` freezes a minor."""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile

import abi_gate
import abi_layout

SUMS = os.path.join(abi_gate.FROZEN, "SHA256SUMS")


def sums():
    found = {}
    for folder, _, names in os.walk(abi_gate.FROZEN):
        for name in names:
            path = os.path.join(folder, name)
            if name not in ("SHA256SUMS", ".clang-format"):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, abi_gate.FROZEN)] = hashlib.sha256(file.read()).hexdigest()
    return found


def check():
    with open(SUMS, encoding="utf-8") as file:
        expected = {name: digest for digest, name in (line.split() for line in file)}
    here = sums()
    said = [f"{name} was changed: a released source stays as it is" for name in here if expected.get(name, here[name]) != here[name]]
    said += [f"{name} is not in SHA256SUMS: freeze a minor with `frozen.py release`" for name in here if name not in expected]
    said += [f"{name} is gone" for name in expected if name not in here]
    return said


def release(compiler):
    """Copies the current headers, and the last release's plugin and host, into a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        version = "%d.%d" % abi_layout.layout_of(folder, abi_gate.CURRENT, compiler).version()
    target = os.path.join(abi_gate.FROZEN, version)
    if os.path.exists(os.path.join(target, "include")):
        return [f"{version} is released already"]
    shutil.copytree(abi_gate.CURRENT, os.path.join(target, "include"))
    minors = abi_gate.released(int(version.split(".")[0]))
    for name in ("plugin.c", "host.c"):
        if minors and not os.path.exists(os.path.join(target, name)):
            before = os.path.dirname(minors[-1][1])
            shutil.copy(os.path.join(before, name), os.path.join(target, name))
            print(f"{target}/{name} is a copy of {before}'s: write the new version into it, and a use of what is new")
    print("then: frozen.py seal")
    return []


def seal():
    with open(SUMS, "w", encoding="utf-8") as file:
        file.writelines(f"{digest}  {name}\n" for name, digest in sorted(sums().items()))
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["check", "release", "seal"])
    parser.add_argument("--cc", default="cc")
    options = parser.parse_args()
    said = {"check": check, "seal": seal, "release": lambda: release(options.cc)}[options.command]()
    for line in said:
        print(f"frozen: {line}", file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
