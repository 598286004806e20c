#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps released sources unchanged (rule 37): `check` compares frozen/ with its checksums, `release` freezes a minor, and `seal`
writes the checksums. Frozen headers have no comments."""

import argparse
import hashlib
import os
import re
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
    found = [f"{name} was changed; released sources must stay unchanged" for name in here if expected.get(name, here[name]) != here[name]]
    found += [f"{name} is not in SHA256SUMS; run `frozen.py seal` after a release" for name in here if name not in expected]
    found += [f"{name} was removed" for name in expected if name not in here]
    return found


def strip(folder):
    """Removes the comments, except the license, and the empty lines of the headers in a folder."""
    for header in abi_layout.headers_of(folder):
        path = os.path.join(folder, "yoke", header)
        with open(path, encoding="utf-8") as file:
            license_line, _, text = file.read().partition("\n")
        text = re.sub(r"[ \t]*/\*.*?\*/", "", text, flags=re.S)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([license_line, *(line.rstrip() for line in text.splitlines() if line.strip())]) + "\n")


def release(compiler):
    """Copies the current headers, and the plugin and host of the previous release, to the folder of the new release."""
    with tempfile.TemporaryDirectory() as folder:
        version = "%d.%d" % abi_layout.layout_of(folder, abi_gate.CURRENT, compiler).version()
    target = os.path.join(abi_gate.FROZEN, version)
    if os.path.exists(os.path.join(target, "include")):
        return [f"{version} is already released"]
    minors = abi_gate.released(int(version.split(".")[0]))
    shutil.copytree(abi_gate.CURRENT, os.path.join(target, "include"))
    strip(os.path.join(target, "include"))
    for name in ("plugin.c", "host.c"):
        if minors and not os.path.exists(os.path.join(target, name)):
            before = os.path.dirname(minors[-1][1])
            shutil.copy(os.path.join(before, name), os.path.join(target, name))
            print(f"{target}/{name} was copied from {before}: change its version, and make it use what this minor added")
    print("then run: frozen.py seal")
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
    found = {"check": check, "seal": seal, "release": lambda: release(options.cc)}[options.command]()
    for line in found:
        print(f"frozen: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
