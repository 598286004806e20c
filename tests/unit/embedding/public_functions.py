#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a public function of the installed headers does not appear in the tests of this folder.

Usage: public_functions.py <include folder>... -- <test source>...

Not required: destructors, operators, members of private sections and of namespace detail, and functions without
parameters of classes that can be neither copied nor moved, because their objects cannot be empty.
"""

import pathlib
import re
import sys

OPENS_CLASS = re.compile(r"(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::(?!:).*)?$", re.S)


def without_comments(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*$", "", text, flags=re.M)


def without_templates(text):
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return text


def function_in(statement):
    """The name and the parameters of the function that a statement declares, or None."""
    statement = without_templates(statement).strip()
    statement = re.sub(r"\brequires\s*\((?:[^()]|\([^()]*\))*\)", "", statement)
    match = re.search(r"(~?\w+)\s*\(([^)]*)", statement.split("=")[0])
    if not match or re.match(r"(friend|using|typedef|static_assert|enum)\b", statement) or "operator" in statement:
        return None
    is_deleted = re.search(r"=\s*delete$", statement)
    return None if match[1].startswith("~") or is_deleted else (match[1], match[2].strip())


def functions_of(path):
    """Pairs of a class ("" outside of classes) and a function."""
    text = without_comments(path.read_text(encoding="utf-8"))
    pinned = set(re.findall(r"\b(\w+)\(const \1&\) = delete", text))
    scopes = []  # of each open brace: ("namespace" or "class" or "body", name, is_public)
    found = []
    start = 0

    def note(end):
        if not scopes or all(kind != "body" and is_public for kind, _, is_public in scopes):
            declared = function_in(text[start:end])
            owner = next((name for kind, name, _ in reversed(scopes) if kind == "class"), "")
            if declared and not (owner in pinned and declared[1] == ""):
                found.append((owner, declared[0]))

    for at, char in enumerate(text):
        if char == ";":
            note(at)
        elif char == "{":
            statement = text[start:at].strip()
            opened = OPENS_CLASS.search(without_templates(statement))
            if re.match(r"(inline )?namespace\b", statement):
                scopes.append(("namespace", "", not statement.endswith("detail")))
            elif opened and "(" not in without_templates(statement):
                scopes.append(("class", opened[1], not re.match(r"(template )?class\b", without_templates(statement))))
            else:
                note(at)
                scopes.append(("body", "", False))
        elif char == "}":
            scopes.pop()
        elif char == ":" and re.search(r"\b(public|private|protected)$", text[start:at].rstrip()) and scopes:
            kind, name, _ = scopes[-1]
            scopes[-1] = (kind, name, text[start:at].rstrip().endswith("public"))
        else:
            continue
        start = at + 1
    return found


def main():
    split = sys.argv.index("--")
    headers = [header for folder in sys.argv[1:split] for header in sorted(pathlib.Path(folder).rglob("*.h"))]
    tests = "".join(pathlib.Path(source).read_text(encoding="utf-8") for source in sys.argv[split + 1:])
    words = set(re.findall(r"\w+", tests))
    count = 0
    missing = []
    for header in headers:
        for owner, name in functions_of(header):
            count += 1
            if name not in words:
                missing.append(f"{header}: {owner + '::' if owner else ''}{name}")
    if missing:
        sys.exit("\n".join(missing) + "\nThese functions have no case with null, empty or moved-from arguments.")
    if count < 200:
        sys.exit(f"only {count} functions were found; the headers are not read correctly")
    print(f"{count} functions of {len(headers)} headers")


main()
