#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares plugin_api/RULES.md with the tree: each rule is listed once, and the tests that it names exist.

A word in backticks in the last column is the name of a test (`Suite.Test` of GoogleTest, `group.test-name` of the conformance kit, or a test of
ctest) or a file: `path`, or `path: text that it contains`. With --build, ctest must also run each named test in that build."""

import argparse
import glob
import json
import os
import re
import subprocess
import sys

import abi_gate

RULES = os.path.join(abi_gate.ROOT, "plugin_api", "RULES.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files(root, *patterns):
    for pattern in patterns:
        yield from glob.glob(os.path.join(root, pattern), recursive=True)


def unit_tests(root):
    """The tests in sources that a CMakeLists.txt in the same folder or its parent lists."""
    for path in files(root, "tests/**/*.cpp"):
        listed = any(os.path.basename(path) in read(lists) for lists in files(os.path.dirname(path), "CMakeLists.txt", "../CMakeLists.txt"))
        if listed:
            for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", read(path), flags=re.M):
                yield f"{suite}.{name}"


def registered(root):
    """Patterns of the names that CMake registers with ctest. A variable in a name matches anything, except for the parameter `name` of a
    function: its values come from the calls of the function."""
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
    """group.test -> the rules that the test is declared to check."""
    folder = os.path.join(root, "plugin_api", "conformance")
    groups = dict((function, name) for name, function in
                  re.findall(r'\{"(\w+)",\s*(\w+)\}', read(os.path.join(folder, "groups.cpp"))))
    found = {}
    for path in files(folder, "groups/*.cpp"):
        for function, body in re.findall(r"^std::vector<Test> (\w+)\(\) \{(.*?)^\}", read(path), flags=re.M | re.S):
            for name, rules in re.findall(r'\{\s*"([a-z0-9-]+)",\s*"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*,\s*\{([\d,\s]*)\}', body):
                found[f"{groups.get(function, '?')}.{name}"] = [int(rule) for rule in re.findall(r"\d+", rules)]
    return found


def rows(text):
    """(number, text, names that enforce it) of each rule."""
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


def rule_count(text):
    """The number of rules, from the heading "# The 39 rules of ..."."""
    return int(re.match(r"# The (\d+) rules ", text)[1])


def problems(root, text):
    count = rule_count(text)
    found, tests, patterns, kit = [], set(unit_tests(root)), list(registered(root)), conformance_tests(root)
    every = rows(text)
    numbers = [number for number, _, _ in every]
    found += [f"rule {number} is listed {numbers.count(number)} times" for number in range(1, count + 1)
              if numbers.count(number) != 1]
    found += [f"rule {number} is out of range; rules are numbered 1 to {count}" for number in numbers if not 1 <= number <= count]
    for number, _, names in every:
        if not names:
            found.append(f"rule {number} names no test")
        found += [f"rule {number}: `{name}` is neither a test nor a file" for name in names
                  if not exists(root, name, tests, patterns, kit)]
        # A file alone does not enforce a rule.
        if names and not any(": " in name or not os.path.exists(os.path.join(root, name)) for name in names):
            found.append(f"rule {number} names only files, not a test")
    for name, rules in kit.items():
        found += [f"the kit's {name} is declared to check rule {rule}, which does not exist" for rule in rules if not 1 <= rule <= count]
    return found


def is_file(root, name):
    return os.path.isfile(os.path.join(root, name.partition(": ")[0]))


def run_by_ctest(build, ctest="ctest"):
    """The tests that `ctest -N` lists. For tests of GoogleTest, `Suite.Test` without program, instance and parameter."""
    listed = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True, text=True).stdout
    found = set()
    for test in json.loads(listed)["tests"]:
        name = test["name"].partition(" ")[0]
        suite_and_test = re.fullmatch(r"\w+\.(?:\w+/)?(\w+\.\w+)(?:/\S+)?", name)
        found |= {name} | ({suite_and_test[1]} if suite_and_test else set())
    return found


def run_by_kit(kit):
    """The tests of the conformance kit."""
    listed = subprocess.run([kit, "--list", "--json"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {test["name"] for test in json.loads(listed)["tests"]}


def not_run(root, text, run, wanted=""):
    """The tests in the map that are not in `run`. `wanted` is a regular expression: only names that it matches are checked."""
    unbuilt = ", ".join(sorted(name.removesuffix("_NOT_BUILT") for name in run if name.endswith("_NOT_BUILT")))
    hint = f" (not built: {unbuilt})" if unbuilt else ""
    return [f"rule {number}: ctest does not run `{name}`{hint}" for number, _, names in rows(text) for name in names
            if not is_file(root, name) and re.match(wanted, name) and name not in run]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", help="a build folder, whose ctest must run every named test")
    parser.add_argument("--ctest", default="ctest")
    parser.add_argument("--kit", help="the path of yoke-conformance")
    parser.add_argument("--names", default="", help="with --build: check only names that this regular expression matches")
    parser.add_argument("--list", action="store_true", help="print the tests of the kit by rule")
    options = parser.parse_args()
    if options.list:
        for name, rules in sorted(conformance_tests(abi_gate.ROOT).items(), key=lambda item: (item[1] or [99], item[0])):
            print(f"{', '.join(map(str, rules)) or '-'}: {name}")
        return 0
    if options.build:
        run = run_by_ctest(options.build, options.ctest)
        # ctest runs the kit's tests if it runs the kit on any plugin.
        if options.kit and any(name.startswith("conformance.") for name in run):
            run |= run_by_kit(options.kit)
        found = not_run(abi_gate.ROOT, read(RULES), run, options.names)
    else:
        found = problems(abi_gate.ROOT, read(RULES))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
