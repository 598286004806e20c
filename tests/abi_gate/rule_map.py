#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds plugin_api/RULES.md against the tree: each of the 39 rules is there once, and what is said to enforce it exists.

A word in backticks in the last column is the name of a test (of GoogleTest, `Suite.Test`; of the conformance kit, `group.test-name`; of ctest),
or a file of the tree, `path` or `path: text that it holds`. With --build, each name that is no file must also be a test that ctest runs in that build."""

import argparse
import glob
import json
import os
import re
import subprocess
import sys

import abi_gate

RULES = os.path.join(abi_gate.ROOT, "plugin_api", "RULES.md")
COUNT = 39


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files(root, *patterns):
    for pattern in patterns:
        yield from glob.glob(os.path.join(root, pattern), recursive=True)


def unit_tests(root):
    """Tests of sources that some CMakeLists.txt beside or above them builds."""
    for path in files(root, "tests/**/*.cpp"):
        listed = any(os.path.basename(path) in read(lists) for lists in files(os.path.dirname(path), "CMakeLists.txt", "../CMakeLists.txt"))
        if listed:
            for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", read(path), flags=re.M):
                yield f"{suite}.{name}"


def registered(root):
    """Patterns of the names that CMake gives to ctest; a variable in a name stands for anything, but for a function's `name`: that is
    what its calls say."""
    every = "\n".join(read(path) for path in files(root, "tests/**/CMakeLists.txt", "tests/**/*.cmake"))
    functions = re.findall(r"^function\((\w+) name\b[^)]*\)(.*?)^endfunction", every, flags=re.M | re.S)
    for function, body in functions:
        for pattern in re.findall(r"add_test\(\s*NAME\s+(\S+)", body):
            for name in re.findall(rf"^\s*{function}\((\w+|\$\{{\w+\}})", every, flags=re.M):
                yield anything_for_variables(pattern.replace("${name}", name))
    outside = re.sub(r"^function\(.*?^endfunction", "", every, flags=re.M | re.S)
    for name in re.findall(r"add_test\(\s*NAME\s+(\S+)", outside):
        yield anything_for_variables(name)


def anything_for_variables(name):
    return ".+".join(re.escape(part) for part in re.split(r"\$\{[^}]*\}|\$<[^>]*>", name))


def conformance_tests(root):
    """group.test -> the rules that it says it checks."""
    folder = os.path.join(root, "tests", "conformance")
    groups = dict((function, name) for name, function in
                  re.findall(r'\{"(\w+)",\s*(\w+)\}', read(os.path.join(folder, "groups.cpp"))))
    found = {}
    for path in files(folder, "groups/*.cpp"):
        for function, body in re.findall(r"^std::vector<Test> (\w+)\(\) \{(.*?)^\}", read(path), flags=re.M | re.S):
            for name, rules in re.findall(r'\{\s*"([a-z0-9-]+)",\s*"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*,\s*\{([\d,\s]*)\}', body):
                found[f"{groups.get(function, '?')}.{name}"] = [int(rule) for rule in re.findall(r"\d+", rules)]
    return found


def rows(text):
    """Rule -> (its words, the names that enforce it)."""
    found = []
    for line in text.splitlines():
        row = re.match(r"\| (\d+) \| (.+?) \| (.+) \|$", line)
        if row:
            found.append((int(row[1]), row[2], re.findall(r"`([^`]+)`", row[3])))
    return found


def exists(root, name, tests, patterns, kit):
    if name in tests or name in kit or any(re.fullmatch(pattern, name) for pattern in patterns):
        return True
    path, _, text = name.partition(": ")
    path = os.path.join(root, path)
    return os.path.isfile(path) and text in read(path)


def broken(root, text):
    said, tests, patterns, kit = [], set(unit_tests(root)), list(registered(root)), conformance_tests(root)
    every = rows(text)
    numbers = [number for number, _, _ in every]
    said += [f"rule {number} stands there {numbers.count(number)} times" for number in range(1, COUNT + 1)
             if numbers.count(number) != 1]
    said += [f"there is no rule {number}" for number in numbers if not 1 <= number <= COUNT]
    for number, _, names in every:
        if not names:
            said.append(f"rule {number} names nothing that enforces it")
        said += [f"rule {number}: `{name}` is no test and no file of the tree" for name in names
                 if not exists(root, name, tests, patterns, kit)]
        # A file alone enforces nothing: something must run.
        if names and not any(": " in name or not os.path.exists(os.path.join(root, name)) for name in names):
            said.append(f"rule {number} names files only, and no test")
    for name, rules in kit.items():
        said += [f"the kit's {name} says that it checks rule {rule}" for rule in rules if not 1 <= rule <= COUNT]
    return said


def is_file(root, name):
    return os.path.isfile(os.path.join(root, name.partition(": ")[0]))


def run_by_ctest(build, ctest="ctest"):
    """What `ctest -N` lists: of GoogleTest's tests `Suite.Test`, without program, instance and parameter; of others the whole name."""
    listed = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True, text=True).stdout
    found = set()
    for test in json.loads(listed)["tests"]:
        name = test["name"].partition(" ")[0]
        suite_and_test = re.fullmatch(r"\w+\.(?:\w+/)?(\w+\.\w+)(?:/\S+)?", name)
        found |= {name} | ({suite_and_test[1]} if suite_and_test else set())
    return found


def run_by_kit(kit):
    """What the kit lists; it runs all of them over each plugin."""
    listed = subprocess.run([kit, "--list", "--json"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {test["name"] for test in json.loads(listed)["tests"]}


def not_run(root, text, run, wanted=""):
    """`run`: the names of tests; `wanted`: what a name that is asked about begins with, a regular expression."""
    unbuilt = ", ".join(sorted(name.removesuffix("_NOT_BUILT") for name in run if name.endswith("_NOT_BUILT")))
    hint = f" (not built: {unbuilt})" if unbuilt else ""
    return [f"rule {number}: ctest does not run `{name}`{hint}" for number, _, names in rows(text) for name in names
            if not is_file(root, name) and re.match(wanted, name) and name not in run]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", help="a build folder: ask its ctest what it runs")
    parser.add_argument("--ctest", default="ctest")
    parser.add_argument("--kit", help="yoke-conformance: ask it for its tests")
    parser.add_argument("--names", default="", help="ask about names only that begin with this regular expression")
    parser.add_argument("--list", action="store_true", help="print the kit's tests of each rule")
    options = parser.parse_args()
    if options.list:
        for name, rules in sorted(conformance_tests(abi_gate.ROOT).items(), key=lambda item: (item[1] or [99], item[0])):
            print(f"{', '.join(map(str, rules)) or '-'}: {name}")
        return 0
    if options.build:
        run = run_by_ctest(options.build, options.ctest)
        # The kit's tests are run where ctest runs the kit over something.
        if options.kit and any(name.startswith("conformance.") for name in run):
            run |= run_by_kit(options.kit)
        said = not_run(abi_gate.ROOT, read(RULES), run, options.names)
    else:
        said = broken(abi_gate.ROOT, read(RULES))
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
