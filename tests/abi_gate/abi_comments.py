#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the comments of the headers must say of every function (rules 15 and 20): one thread tag of the closed list, one word on how
long it may take, and who owns what it hands over. `--rows PROGRAM` holds them against the table that the validation layer works with."""

import argparse
import os
import re
import sys

import abi_gate
import abi_layout

THREADS = ("any-thread", "device-serial", "stream-serial", "load-time", "callback")
# Of a comment's first "Threads:" on, both words stand; a wait is "May block, at most ...".
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


def broken(include):
    said, every = [], list(functions(include))
    names = {one.name for one in every}
    for one in every:
        where = f"{one.header}:{one.line}: {one.name}"
        if not one.comment:
            said.append(f"{where} has no comment of its own")
            continue
        if one.thread() not in THREADS:
            said.append(f"{where} needs one thread tag of {', '.join(THREADS)} (rule 20)")
        if one.time() is None:
            said.append(f"{where} needs one of {', '.join(TIMES)} (rule 20)")
        for out in one.out_handles():
            owned = re.search(rf"Ownership: \*{out} is owned(?: by the host)?: `?(\w+)`?", one.comment)
            if not owned or owned[1] not in names:
                said.append(f"{where} does not say `Ownership: *{out} is owned: <the function that ends it>` (rule 15)")
        if one.returns.endswith("*") and not re.search(r"[Bb]orrowed from|Ownership: owned: `\w+`", one.comment):
            said.append(f"{where} gives a pointer and has no ownership word (rule 15)")
        if one.time() == "asynchronous":
            said += unsaid_memory(one, where)
        if one.name.endswith(("_destroy", "_close")) or one.name in ("destroy", "deallocate"):
            if "NULL is accepted" not in one.comment:
                said.append(f"{where} does not say that NULL is accepted (rule 14)")
    return said


def unsaid_memory(one, where):
    """Memory of the host that an asynchronous function reads or writes: until when."""
    said = []
    for text in one.parameters:
        if re.match(r"(const )?(void|int64_t)\* ", text):
            if not re.search(r"until an event|YOKE_SOURCE_|copied in the call", one.comment):
                said.append(f"{where} does not say how long `{text.split()[-1]}` must live (rule 15)")
    return said


def broken_rows(include, program):
    """`program` prints a line per function of the validation table: name, thread, time, then argument=ownership ..."""
    said, every = [], {one.name: one for one in functions(include)}
    rows = {line.split()[0]: line.split()[1:] for line in abi_layout.run([program]).splitlines()}
    for name, (thread, time, *arguments) in rows.items():
        one = every.get(name)
        if one is None:
            said.append(f"the validation table has {name}, and no header does")
            continue
        where = f"{one.header}:{one.line}: {name}"
        if (one.thread(), one.time()) != (thread, time):
            said.append(f"{where} says [{one.thread()}] and {one.time()}; the validation table says [{thread}] and {time}")
        owned = {argument.split("=")[0] for argument in arguments if argument.endswith("=owned")}
        if owned != set(one.out_handles()):
            said.append(f"{where} hands out {one.out_handles()}; the validation table says {sorted(owned)}")
        until = [argument.split("=")[0] for argument in arguments if argument.endswith("=until-event")]
        if until and not re.search(r"until an event|YOKE_SOURCE_", one.comment):
            said.append(f"{where}: the validation table keeps {', '.join(until)} until an event, the comment does not say so")
    missing = {member for lists in abi_lists(include) for member in lists} - set(rows)
    return said + [f"the validation table lacks {name}" for name in sorted(missing)]


def abi_lists(include):
    for header in abi_layout.headers_of(include):
        with open(os.path.join(include, "yoke", header), encoding="utf-8") as file:
            yield re.findall(r"X\(yoke_\w+, (\w+), [RO]\)", file.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", default=abi_gate.CURRENT)
    parser.add_argument("--rows", help="a program that prints the validation table")
    options = parser.parse_args()
    said = broken_rows(options.include, options.rows) if options.rows else broken(options.include)
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
