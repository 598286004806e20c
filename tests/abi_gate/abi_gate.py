#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ABI gate (rules 3 to 9 and 36) compares the layout of the public headers with the golden file and every released minor."""

import argparse
import difflib
import os
import sys
import tempfile

import abi_diff
import abi_layout
import abi_rules

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CURRENT = os.path.join(ROOT, "plugin_api", "include")
GOLDEN = os.path.join(HERE, "golden", "layout.txt")
FROZEN = os.path.join(HERE, "frozen")
SKIPPED = 77


def released(major):
    """The frozen minors of a major and their include folders, oldest first."""
    found = []
    for name in os.listdir(FROZEN):
        parts = name.split(".")
        if len(parts) == 2 and all(part.isdigit() for part in parts) and int(parts[0]) == major:
            found.append((int(parts[1]), os.path.join(FROZEN, name, "include")))
    return sorted(found)


def release_breaks(folder, current, compiler):
    """Compares the headers with every released minor of this major that is still supported: only appends are allowed."""
    found = []
    minors = released(current.version()[0])
    for minor, include in minors:
        old = abi_layout.layout_of(os.path.join(folder, f"frozen.{minor}"), include, compiler)
        if old.version() != (current.version()[0], minor):
            found.append(f"frozen/{current.version()[0]}.{minor} has the headers of %d.%d" % old.version())
        found += [f"since {current.version()[0]}.{minor}: {line}" for line in abi_rules.breaks(old, current)]
    if current.version()[0] > 0:
        here = {minor for minor, _ in minors}
        found += [f"frozen/{current.version()[0]}.{minor} is missing; from 1.0 on, every minor is supported"
                  for minor in range(current.version()[1]) if minor not in here]
    return found


def current_layout(options, folder):
    return abi_layout.layout_of(os.path.join(folder, "current"), options.include, options.cc)


def golden(options, folder):
    """The layout equals the golden file, for C11 and for C++20, and follows the rules for layouts."""
    layout = current_layout(options, folder)
    found = abi_rules.shape_problems(layout) + abi_layout.language_differences(folder, layout, options)
    with open(options.golden, encoding="utf-8") as file:
        expected = file.read()
    if layout.render() != expected:
        found += difflib.unified_diff(expected.splitlines(), layout.render().splitlines(), "golden/layout.txt",
                                      "the headers", lineterm="", n=2)
        found.append("the layout differs from the golden file; for an intended change, run tests/abi_gate/abi_gate.py update")
    return found


def appends(options, folder):
    return release_breaks(folder, current_layout(options, folder), options.cc)


def abidiff(options, folder):
    current = current_layout(options, folder)
    binary = os.path.join(folder, "current", "user.so")
    found = []
    for minor, include in released(current.version()[0]):
        old_binary, old = abi_layout.build(os.path.join(folder, f"frozen.{minor}"), include, options.cc)
        old = abi_layout.read(old_binary, old)
        found += [f"since {current.version()[0]}.{minor}: {line}"
                  for line in abi_diff.breaks(old, abi_diff.report(old_binary, binary))]
    return found


def update(options, folder):
    """Writes the golden file, unless the headers break the rules for layouts or differ from a released minor by more than appends."""
    layout = current_layout(options, folder)
    found = abi_rules.shape_problems(layout) + release_breaks(folder, layout, options.cc)
    if found:
        return found + ["the golden file was not written; see `Intended changes` in tests/abi_gate/README.md"]
    os.makedirs(os.path.dirname(options.golden), exist_ok=True)
    with open(options.golden, "w", encoding="utf-8") as file:
        file.write(layout.render())
    print(f"{options.golden}: ABI %d.%d" % layout.version())
    return []


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["golden", "appends", "abidiff", "update"])
    parser.add_argument("--cc", default="cc", help="the C compiler")
    parser.add_argument("--cxx", default="c++", help="the C++ compiler")
    parser.add_argument("--include", default=CURRENT, help="the folder of the headers, which contains yoke/")
    parser.add_argument("--golden", default=GOLDEN)
    parser.add_argument("--optional", action="store_true", help="exit with 77 if abidiff is not installed")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="yoke_abi_") as folder:
        try:
            found = globals()[options.command](options, folder)
        except abi_layout.GateError as error:
            print(f"abi_gate: {error}", file=sys.stderr)
            return SKIPPED if options.optional and "not installed" in str(error) else 2
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
