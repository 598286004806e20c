#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tables of frontends/tensor/documents against the tests of a build.

Usage: documents.py CTEST BUILD [--prove]

Every row must have a test that exists, or a reason why there is none. With --prove, plants mistakes in the tables and
fails unless each of them is reported. If parts of the build are missing, tests of the sources count, too.
"""
import json
import pathlib
import re
import subprocess
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]
FOLDER = TREE / "frontends/tensor/documents"
HEADER = ["there", "yoke", "difference", "test"]
TEST = re.compile(r"\w+\.\w+")


def tests_of(ctest, build):
    """The names Suite.Test of all tests, without the prefixes and suffixes of parameters."""
    listing = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    names = [test["name"] for test in json.loads(listing.stdout)["tests"]]
    found = set()
    for name in names:  # program.instance/Suite.Test/parameter
        parts = name.split(".")
        if len(parts) >= 3:
            found.update(f"{suite}.{parts[2].split('/')[0]}" for suite in parts[1].split("/"))
    if any(name.endswith("_NOT_BUILT") for name in names):
        for source in (TREE / "tests").rglob("*.cpp"):
            text = source.read_text(encoding="utf-8")
            found.update(".".join(pair) for pair in re.findall(r"TEST\w*\(\s*(\w+),\s*(\w+)\)", text))
    return found


def rows_of(text):
    """Pairs of a line's number and its cells, of all lines of tables."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|"):
            yield number, [cell.strip() for cell in line.strip().strip("|").split("|")]


def check(pages, tests):
    problems = []
    missing = 0
    index = pages["README.md"]
    for name, text in sorted(pages.items()):
        if name == "README.md":
            continue
        if f"`{name}`" not in index:
            problems.append(f"{name}: README.md does not list this page")
        rows = list(rows_of(text))
        if len(rows) < 3 or rows[0][1] != HEADER:
            problems.append(f"{name}: expected one table with the columns {', '.join(HEADER)}")
            continue
        for number, cells in rows[2:]:
            where = f"{name}:{number}: "
            if len(cells) != 4 or not cells[0]:
                problems.append(where + "expected 4 cells, the first of which is not empty")
                continue
            there, ours, difference, shown_by = cells
            if shown_by == "missing":
                missing += 1
                continue
            if not ours:
                problems.append(where + f"'{there}' has no name in yoke; write - and the reason")
            if shown_by == "none" or ours == "-":
                if not difference:
                    problems.append(where + f"'{there}' has neither a test nor a reason why there is none")
            if shown_by == "none":
                continue
            for test in shown_by.split(", "):
                if not TEST.fullmatch(test):
                    problems.append(where + f"'{there}' needs a test as Suite.Test, 'none' or 'missing', not '{test}'")
                elif test not in tests:
                    problems.append(where + f"there is no test {test}")
    stated = re.search(r"^Rows marked `missing`: (\d+)\.$", index, re.M)
    if not stated or int(stated[1]) != missing:
        problems.append(f"README.md: expected the line 'Rows marked `missing`: {missing}.'")
    return problems


def prove(pages, tests):
    """Returns mistakes that check() does not report."""
    page = pages["train.md"]
    test = next(cells[3] for _, cells in rows_of(page) if TEST.fullmatch(cells[3]))
    row = next(line for line in page.splitlines() if line.endswith(f"| {test} |"))
    there = row.split("|")[1].strip()
    mistakes = {
        "an unknown test": {**pages, "train.md": page.replace(f"| {test} |", f"| {test}X |", 1)},
        "a row without a test": {**pages, "train.md": page.replace(f"| {test} |", "| |", 1)},
        "a row without a reason": {**pages, "train.md": page.replace(row, f"| {there} | a | | none |", 1)},
        "a row without a name": {**pages, "train.md": page.replace(row, f"| {there} | | | {test} |", 1)},
        "a row with too few cells": {**pages, "train.md": page.replace(row, f"| {there} | {test} |", 1)},
        "a missing row that is not counted": {**pages, "train.md": page.replace(f"| {test} |", "| missing |", 1)},
        "a page without a table": {**pages, "train.md": "# nothing\n"},
        "a page that is not listed": {**pages, "other.md": page},
    }
    return [f"not reported: {what}" for what, planted in mistakes.items() if not check(planted, tests)]


def main():
    ctest, build = sys.argv[1:3]
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
    tests = tests_of(ctest, build)
    problems = check(pages, tests) if "--prove" not in sys.argv else prove(pages, tests)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
