#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless the tests in this folder pass every kind of null, empty, moved-from or closed argument that a public
function accepts.

Usage: argument_kinds.py <include folder>... -- <test source>...

The types of a declaration say which kinds of arguments the tests must pass in a call:
  call      any
  null      a null pointer for each pointer
  empty     for each text, list, function and class that can be empty: "", {}, Tensor(), a variable without initializer,
            or an object that was moved from
  element   for each list of these, one with a null or empty element
  moved     a call of each member function of an object that was moved from
  closed    a call of each member function after close(), commit(), abort() or set_lost()
Parameters with a default value are not checked for null or empty. Calls are found by name, number of arguments and,
where the tests name its type, the object; overloads with arguments of the same types are not told apart.
argument_exceptions.txt lists functions and kinds that need no call.
"""

import pathlib
import re
import sys

import public_functions
from public_functions import blanked, closing, split

CLOSING = {"close", "commit", "abort", "set_lost"}
CONVERTS = {("Scalar", "Tensor"), ("Handle", "Module"), ("Handle", "function"), ("Module", "function"),
            ("Module", "Model"), ("function", "Model"), ("pointer", "function"), ("Tensor", "Loss")}


class Test:
    """One TEST, with the globals of its file."""

    def __init__(self, text, global_text, headers):
        self.text = text
        self.headers = headers
        self.types = {}  # of variables
        self.empty = {}  # from variables to "empty" or "element"
        self.cleared = {}  # from variables to pairs of the range in which they are moved from or closed, and the kind
        for match in re.finditer(r"std::move\((\w+)\)", text):
            self._clear(match[1], match.end(), "moved")
        for match in re.finditer(rf"\b(\w+)(?:\.|->)(?:{'|'.join(CLOSING)})\(\)", text):
            self._clear(match[1], match.end(), "closed")
        for part in (global_text, text):
            for match in re.finditer(r"([\w:]+(?:<[^;{}=]*?>+)?)[ &*]+(\w+)\s*([;({=:])(?!:)", part):
                if match[1] not in ("return", "auto", "namespace", "using", "struct", "class", "case"):
                    self._declare(part, match)
        self.calls = self._find_calls()

    def _declare(self, part, match):
        kind, name = match[1], match[2]
        begin = match.end() - 1
        pointee = re.match(r"(?:std::)?shared_ptr<(?:const )?(.*)>$", kind)
        self.types[name] = self.headers.base(pointee[1] if pointee else kind)[0]
        found = None
        if match[3] == ";":
            found = self.headers.category(kind), "empty"
        elif match[3] == "=":
            found = self.kind_of(part[begin + 1:part.find(";", begin)], begin)
        elif match[3] == ":":  # a loop over a list
            values = re.match(r":\s*\{([^{}]*)\}", part[begin:])
            kinds = [self.kind_of(value, begin) for value in split(values[1])] if values else []
            found = next((each for each in kinds if each), None)
        else:
            found = self.kind_of(kind + part[begin:closing(blanked(part[begin:]), 0) + begin + 1], begin)
        if found and found[0]:
            self.empty[name] = (found[0] if found[0] != "any" else self.headers.category(kind), found[1])

    def _clear(self, name, begin, kind):
        renewed = re.search(rf"\b{name} = |\b{name}(?:\.|->)renew\(\)", self.text[begin:])
        end = begin + renewed.end() if renewed else len(self.text)
        self.cleared.setdefault(name, []).append((begin, end, kind))

    def is_cleared(self, name, at, kind):
        return any(begin <= at < end and kind == each for begin, end, each in self.cleared.get(name, []))

    def kind_of(self, value, at):
        """A category ("any": each) and "empty" or "element" of an argument that is empty, or None."""
        value = value.strip()
        if value in ("{}", "nullptr", '""'):
            return {"{}": "any", "nullptr": "pointer", '""': "text"}[value], "empty"
        if re.fullmatch(r"static_cast<[^()]*\*>\(nullptr\)", value):
            return "pointer", "empty"
        if re.fullmatch(r"\w+", value):
            if self.is_cleared(value, at, "moved"):
                return self.headers.category(self.types.get(value, "")), "empty"
            return self.empty.get(value)
        made = re.fullmatch(r"((?:const )?[\w:]*(?:<.*>)?)\s*([({])(.*)[)}]", value, re.S)
        if made and (made[2] == "{" or made[1]):
            category = self.headers.category(made[1]) if made[1] else "any"
            parts = split(made[3])
            if category == "list" and made[2] == "(" and re.fullmatch(r"\d+", made[3]):
                return "list", "element"
            if not parts and category:
                return category, "empty"
            if category in ("list", "any") and any(self.kind_of(part, at) for part in parts):
                return "list", "element"
        return None

    def _find_calls(self):
        """For each name, the calls: arguments, position, the name before the dot and the class before ::, or None."""
        calls = {}
        outline = blanked(self.text)
        for match in re.finditer(r"\b(?=(\w+)((?:<[^<>()]*>)?(?: \w+)?\s*)[({])", self.text):
            opening = match.end(2)
            start = match.start()
            before = re.search(r"(?:(\w+)(?:\(\))?(?:\.|->)|(\w+)::)$", self.text[max(0, start - 60):start])
            arguments = split(self.text[opening + 1:closing(outline, opening)])
            receiver, scope = before.groups() if before else (None, None)
            calls.setdefault(match[1], []).append((arguments, start, receiver, scope))
        return calls


def read_tests(paths, headers):
    shared, files = "", []
    for path in paths:
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        text = re.sub(r'"(?:\\.|[^"\\])*"', lambda match: '"' + "." * (len(match[0]) - 2) + '"', text)
        parts = re.split(r"^(?=TEST)", text, flags=re.M)
        if len(parts) == 1:
            shared += text
        else:
            files.append(parts)
    return [Test(part, shared + parts[0], headers) for parts in files for part in parts[1:]]


def wanted(function, headers):
    """Pairs of a parameter's position, or None for the object itself, and a kind."""
    if function.parameters or function.name != function.owner:
        yield None, "call"
    for at, (kind, _) in enumerate(function.parameters[:function.required_count]):
        category = headers.category(kind)
        if category and not kind.endswith("&&"):
            yield at, "null" if category == "pointer" else "empty"
        element = headers.element(kind)
        if element and headers.category(element):
            yield at, "element"
    if function.owner and not function.is_static and function.name != function.owner:
        if function.owner in headers.classes and headers.can_be_empty(function.owner):
            yield None, "moved"
        if function.owner in headers.closed:
            yield None, "closed"


def tried(function, tests, headers):
    found = set()
    for test in tests:
        for arguments, at, receiver, scope in test.calls.get(function.name, []):
            owner = test.types.get(receiver)
            if receiver and (not function.owner or (owner in headers.classes and owner != function.owner)):
                continue
            if scope in headers.classes and scope != function.owner != function.name:
                continue
            variadic = any("..." in kind for kind, _ in function.parameters)
            if not variadic and not function.required_count <= len(arguments) <= len(function.parameters):
                continue
            found.add((None, "call"))
            for state in ("moved", "closed"):
                if owner == function.owner and test.is_cleared(receiver, at, state):
                    found.add((None, state))
            for position, (argument, (kind, _)) in enumerate(zip(arguments, function.parameters)):
                value = test.kind_of(argument, at)
                category = headers.category(kind)
                if value and (value[0] in ("any", category) or (value[0], category) in CONVERTS):
                    found.add((position, "null" if category == "pointer" else value[1]))
    return found


def can_go_wrong(function, headers):
    """Whether a function has arguments, or an object that can be empty or closed."""
    if function.parameters:
        return True
    return function.name != function.owner and function.owner not in headers.pinned - headers.closed


def main():
    split_at = sys.argv.index("--")
    paths = [header for folder in sys.argv[1:split_at] for header in sorted(pathlib.Path(folder).rglob("*.h"))]
    headers = public_functions.Headers(paths)
    headers.closed = {function.owner for function in headers.functions if function.name in CLOSING}
    tests = read_tests([pathlib.Path(source) for source in sys.argv[split_at + 1:]], headers)
    lines = (pathlib.Path(__file__).parent / "argument_exceptions.txt").read_text(encoding="utf-8").splitlines()
    reasons = dict(re.fullmatch(r"(.*?): (.*)", line).groups() for line in lines if line and line[0] != "#")
    functions = [function for function in headers.functions if can_go_wrong(function, headers)]
    unused, count, missing = set(reasons), 0, []
    for function in functions:
        found = tried(function, tests, headers)
        for position, kind in wanted(function, headers):
            count += 1
            parameter = "" if position is None else f"({function.parameters[position][1]})"
            what = f"{function.label()}{parameter} {kind}"
            excepted = {what, function.label()} & set(reasons)
            if (position, kind) not in found:
                unused -= excepted
                missing += [] if excepted else [what]
    problems = [f"no test passes: {what}" for what in missing]
    problems += [f"unneeded line in argument_exceptions.txt: {what}" for what in sorted(unused)]
    if problems:
        sys.exit("\n".join(problems))
    if len(functions) < 600 or count < 1300:
        sys.exit(f"only {len(functions)} functions and {count} kinds; the headers are not read correctly")
    print(f"{count} kinds of arguments of {len(functions)} functions of {len(paths)} headers")


main()
