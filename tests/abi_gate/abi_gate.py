#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ABI gate (rules 3 to 9 and 36): the layout of the public headers, against the golden file and every released minor."""

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
    """The frozen include folders of a major, oldest first."""
    found = []
    for name in os.listdir(FROZEN):
        parts = name.split(".")
        if len(parts) == 2 and all(part.isdigit() for part in parts) and int(parts[0]) == major:
            found.append((int(parts[1]), os.path.join(FROZEN, name, "include")))
    return sorted(found)


def broken_since_release(folder, current, compiler):
    """Every released minor of this major that is still served must be contained in the current headers."""
    said = []
    minors = released(current.version()[0])
    for minor, include in minors:
        old = abi_layout.layout_of(os.path.join(folder, f"frozen.{minor}"), include, compiler)
        if old.version() != (current.version()[0], minor):
            said.append(f"frozen/{current.version()[0]}.{minor} holds the headers of %d.%d" % old.version())
        said += [f"since {current.version()[0]}.{minor}: {line}" for line in abi_rules.breaks(old, current)]
    if current.version()[0] > 0:
        here = {minor for minor, _ in minors}
        said += [f"frozen/{current.version()[0]}.{minor} is missing: from 1.0 on every minor is served"
                 for minor in range(current.version()[1]) if minor not in here]
    return said


def current_layout(options, folder):
    return abi_layout.layout_of(os.path.join(folder, "current"), options.include, options.cc)


def golden(options, folder):
    layout = current_layout(options, folder)
    said = abi_rules.broken_shape(layout)
    with open(options.golden, encoding="utf-8") as file:
        expected = file.read()
    if layout.render() != expected:
        said += difflib.unified_diff(expected.splitlines(), layout.render().splitlines(), "golden/layout.txt",
                                     "the headers", lineterm="", n=2)
        said.append("the layout is not what the golden file says; if that is meant: tests/abi_gate/abi_gate.py update")
    return said


def appends(options, folder):
    return broken_since_release(folder, current_layout(options, folder), options.cc)


def abidiff(options, folder):
    current = current_layout(options, folder)
    binary = os.path.join(folder, "current", "user.so")
    said = []
    for minor, include in released(current.version()[0]):
        old_binary, old = abi_layout.build(os.path.join(folder, f"frozen.{minor}"), include, options.cc)
        old = abi_layout.read(old_binary, old)
        said += [f"since {current.version()[0]}.{minor}: {line}"
                 for line in abi_diff.breaks(old, abi_diff.report(old_binary, binary))]
    return said


def update(options, folder):
    """Writes the golden file; refuses where the headers break their shape, or a released minor."""
    layout = current_layout(options, folder)
    said = abi_rules.broken_shape(layout) + broken_since_release(folder, layout, options.cc)
    if said:
        return said + ["nothing was written: see `A change on purpose` in tests/abi_gate/README.md"]
    os.makedirs(os.path.dirname(options.golden), exist_ok=True)
    with open(options.golden, "w", encoding="utf-8") as file:
        file.write(layout.render())
    print(f"{options.golden}: ABI %d.%d" % layout.version())
    return []


def compare(options, folder):
    """Two folders of headers; for trying a change before it is made."""
    old = abi_layout.layout_of(os.path.join(folder, "old"), options.old, options.cc)
    new = abi_layout.layout_of(os.path.join(folder, "new"), options.include, options.cc)
    return abi_rules.broken_shape(new) + abi_rules.breaks(old, new)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["golden", "appends", "abidiff", "update", "compare", "show"])
    parser.add_argument("--cc", default="cc", help="the C compiler")
    parser.add_argument("--include", default=CURRENT, help="the headers' folder (it holds yoke/)")
    parser.add_argument("--golden", default=GOLDEN)
    parser.add_argument("--old", help="compare: the folder of the older headers")
    parser.add_argument("--optional", action="store_true", help="exit 77 where abidiff is not installed")
    return parser.parse_args(arguments)


def show(options, folder):
    print(current_layout(options, folder).render(), end="")
    return []


def main(arguments=None):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="yoke_abi_") as folder:
        try:
            said = globals()[options.command](options, folder)
        except abi_layout.GateError as error:
            print(f"abi_gate: {error}", file=sys.stderr)
            return SKIPPED if options.optional and "not installed" in str(error) else 2
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
