# SPDX-License-Identifier: Apache-2.0
"""Runs abidiff on two binaries and parses its report: only lines that describe an allowed append are accepted."""

import re
import shutil
import subprocess

from abi_layout import GateError
from abi_rules import grows

# Lines that only locate a change, or report an addition.
HARMLESS = re.compile(r"|".join([
    r"$",
    r"(Functions|Variables) changes summary: 0 Removed, \d+ Changed, \d+ Added (function|variable)s?",
    r"Unreachable types summary: 0 removed, \d+ changed, \d+ added types?",
    r"\d+ Added (function|variable)s?:",
    r"\d+ added types? unreachable from any public interface:",
    r"\[A\] .*",
    r"\d+ (function|variable)s? with some (indirect )?sub-type changes?:",
    r"\d+ changed types? unreachable from any public interface:",
    r"\[C\] 'function .*' has some (indirect )?sub-type changes:",
    r"\[C\] '(struct|typedef|enum) .*' changed:",
    r"(return type|parameter \d+ of type '.*') changed:",
    r"parameter \d+ of type '.*' has sub-type changes:",
    r"in (pointed to|unqualified underlying) type .*:",
    r"underlying type '.*' changed:",
    r"type of '.*' changed:",
    r"\d+ data member changes?:",
    r"(enum )?type '.*' changed, as reported earlier",
    r".*(as|being) reported (earlier|later).*",
    r"type size hasn't changed",
    r"\d+ data member insertions?:",
    r"\d+ enumerator changes?:",
    r"'of_YOKE_ABI_MINOR::value_of_YOKE_ABI_MINOR' from value '\d+' to '\d+'",
]))
STRUCT = re.compile(r"(?:underlying|pointed to) type '(?:struct|typedef) (\w+)'|\[C\] '(?:struct|typedef) (\w+)'")
GREW = re.compile(r"type size changed from (\d+) to (\d+) \(in bits\)$")
INSERTED = re.compile(r"'.*', at offset (\d+) \(in bits\)$")


def report(old_binary, new_binary):
    if shutil.which("abidiff") is None:
        raise GateError("abidiff is not installed (Debian: abigail-tools)")
    command = ["abidiff", "--no-default-suppression", "--non-reachable-types", "--harmless", "--no-show-locs",
               "--fail-no-debug-info", old_binary, new_binary]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode & 3:
        raise GateError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Place:
    """The struct that an indented part of a report describes, and its old size."""

    def __init__(self, indent, struct):
        self.indent, self.struct, self.old_bits = indent, struct, None


def breaks(old_layout, text):
    """The lines of a report that describe anything but an allowed append."""
    found, places = [], [Place(-1, "?")]
    for full in text.splitlines():
        line = full.strip()
        indent = len(full) - len(full.lstrip())
        while line and places[-1].indent >= indent:
            places.pop()
        named = STRUCT.search(line)
        if named:
            places.append(Place(indent, named[1] or named[2]))
        place, grew, inserted = places[-1], GREW.match(line), INSERTED.match(line)
        if grew:
            place.old_bits = int(grew[1])
            allowed = place.struct in old_layout.structs and grows(old_layout, place.struct)
            fine = allowed and int(grew[2]) > place.old_bits
        elif inserted:
            # A member inserted into padding does not change the size, but it is not an append.
            fine = place.old_bits is not None and int(inserted[1]) >= place.old_bits
        else:
            fine = HARMLESS.fullmatch(line)
        if not fine:
            found.append(f"{place.struct}: {line}")
    return found
