#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the comment of every function in the headers (rules 15 and 20): one thread tag, one statement about blocking, and the owner of
every handle that the function returns. `--rows PROGRAM` compares the comments with the table that the validation layer uses."""

import argparse
import os
import re
import sys

import abi_gate
import abi_layout

THREADS = ("any-thread", "device-serial", "stream-serial", "load-time", "callback")
TIMES = {"Bounded": "bounded", "May block": "may-block", "Asynchronous": "asynchronous"}
FUNCTION = re.compile(r"(?:/\*(?P<comment>(?:[^*]|\*(?!/))*)\*/\s*)?(?:typedef )?(?P<type>(?:const )?\w+\*?) \(\*(?P<name>\w+)\)"
                      r"\((?P<parameters>[^)]*)\);")


class Function:
    def __init__(self, header, match):
        self.header, self.name = header, match["name"]
        self.comment = re.sub(r"\s*\n\s*\*?\s*", " ", match["comment"] or "").strip()
        self.returns = match["type"]
        self.parameters = [" ".join(text.split()) for text in match["parameters"].split(",")]
        self.line = 0

    def out_handles(self):
        return [text.split()[-1] for text in self.parameters if "**" in text]

    def thread(self):
        found = re.findall(r"\[(\w+-\w+|callback)\]", self.comment)
        return found[0] if len(set(found)) == 1 else None

    def time(self):
        found = {time for word, time in TIMES.items() if re.search(rf"\b{word}\b", self.comment)}
        return found.pop() if len(found) == 1 else None


def functions(include):
    for header in abi_layout.headers_of(include):
        with open(os.path.join(include, "yoke", header), encoding="utf-8") as file:
            text = file.read()
        for match in FUNCTION.finditer(text):
            one = Function(header, match)
            one.line = text.count("\n", 0, match.start("type")) + 1
            yield one


def problems(include):
    """One sentence per defect in the comments of the headers."""
    found, every = [], list(functions(include))
    names = {one.name for one in every}
    for one in every:
        where = f"{one.header}:{one.line}: {one.name}"
        if not one.comment:
            found.append(f"{where} has no comment")
            continue
        if one.thread() not in THREADS:
            found.append(f"{where}: the comment must have one of the thread tags {', '.join(THREADS)} (rule 20)")
        if one.time() is None:
            found.append(f"{where}: the comment must have one of {', '.join(TIMES)} (rule 20)")
        for out in one.out_handles():
            owned = re.search(rf"Ownership: \*{out} is owned(?: by the host)?: `?(\w+)`?", one.comment)
            if not owned or owned[1] not in names:
                found.append(f"{where}: the comment must have `Ownership: *{out} is owned: <destroy function>` (rule 15)")
        if one.returns.endswith("*") and not re.search(r"[Bb]orrowed from|Ownership: owned: `\w+`", one.comment):
            found.append(f"{where} returns a pointer; the comment must state its owner (rule 15)")
        if one.time() == "asynchronous":
            found += lifetime_problems(one, where)
        if one.name.endswith(("_destroy", "_close")) or one.name in ("destroy", "deallocate"):
            if "NULL is accepted" not in one.comment:
                found.append(f"{where}: the comment must have `NULL is accepted` (rule 14)")
    return found


def lifetime_problems(one, where):
    """The comment of an asynchronous function must state how long the host memory that it accesses has to live."""
    found = []
    for text in one.parameters:
        if re.match(r"(const )?(void|int64_t)\* ", text):
            if not re.search(r"until an event|YOKE_SOURCE_|copied in the call|must stay valid until", one.comment):
                found.append(f"{where}: the comment must state how long `{text.split()[-1]}` has to live (rule 15)")
    return found


def row_problems(include, program):
    """`program` prints the validation table, one function per line: name, thread, time, then argument=ownership ..."""
    found, every = [], {one.name: one for one in functions(include)}
    rows = {line.split()[0]: line.split()[1:] for line in abi_layout.run([program]).splitlines()}
    for name, (thread, time, *arguments) in rows.items():
        one = every.get(name)
        if one is None:
            found.append(f"the validation table has {name}, which no header declares")
            continue
        where = f"{one.header}:{one.line}: {name}"
        if (one.thread(), one.time()) != (thread, time):
            found.append(f"{where} is [{one.thread()}] and {one.time()}, but [{thread}] and {time} in the validation table")
        owned = {argument.split("=")[0] for argument in arguments if argument.endswith("=owned")}
        if owned != set(one.out_handles()):
            found.append(f"{where} returns {one.out_handles()}, but {sorted(owned)} in the validation table")
        until = [argument.split("=")[0] for argument in arguments if argument.endswith("=until-event")]
        if until and not re.search(r"until an event|YOKE_SOURCE_", one.comment):
            found.append(f"{where}: {', '.join(until)} must live until an event, according to the validation table but not to the comment")
    missing = {member for lists in abi_lists(include) for member in lists} - set(rows)
    return found + [f"the validation table lacks {name}" for name in sorted(missing)]


def abi_lists(include):
    for header in abi_layout.headers_of(include):
        with open(os.path.join(include, "yoke", header), encoding="utf-8") as file:
            yield re.findall(r"X\(yoke_\w+, (\w+), [RO]\)", file.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", default=abi_gate.CURRENT)
    parser.add_argument("--rows", help="a program that prints the validation table")
    options = parser.parse_args()
    found = row_problems(options.include, options.rows) if options.rows else problems(options.include)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
