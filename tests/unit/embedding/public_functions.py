# SPDX-License-Identifier: Apache-2.0
"""Finds the public functions of headers, and what their parameters can be that is null or empty.

Not listed: destructors, operators, members of private sections and of namespace detail.
"""

import dataclasses
import re

OPENS_CLASS = re.compile(r"(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::(?!:).*)?$", re.S)
TEXT = {"string", "string_view", "path"}
LIST = {"span", "vector", "initializer_list", "map"}
POINTER = {"shared_ptr", "unique_ptr", "yoke_plugin_entry_fn"}
FUNCTION = {"function", "BatchFunction"}


@dataclasses.dataclass
class Function:
    owner: str  # its class; "" outside of classes
    name: str
    parameters: list  # pairs of a type and a name
    required_count: int  # number of parameters without a default
    is_static: bool

    def label(self):
        return f"{self.owner + '::' if self.owner else ''}{self.name}"


def without_comments(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*$", "", text, flags=re.M)


def blanked(text):
    """The text with template arguments and requirements overwritten by spaces, so that positions do not change."""
    text = re.sub(r'"(?:\\.|[^"\\])*"', lambda match: "\"" + " " * (len(match[0]) - 2) + "\"", text)
    text = re.sub(r"->|<=|>=|<<", "  ", text)
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>;]*>", lambda match: " " * len(match[0]), text)
    return re.sub(r"\brequires\s*\((?:[^()]|\([^()]*\))*\)", lambda match: " " * len(match[0]), text)


def closing(text, opening):
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return len(text)


def split(text):
    """Splits at the commas outside brackets."""
    outline, depth, begin, parts = blanked(text), 0, 0, []
    for at, char in enumerate(outline):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return parts if parts != [""] else []


def function_in(statement, owner):
    outline = blanked(statement)
    match = re.search(r"(~?\w+)\s*\((?!\*)", outline.split("=")[0])
    is_other = re.match(r"\s*(friend|using|typedef|static_assert|enum)\b", outline) or "operator" in outline
    if not match or is_other or match[1].startswith("~") or re.search(r"=\s*delete\s*$", outline):
        return None
    opening = match.end() - 1
    parameters, required_count = [], 0
    for part in split(statement[opening + 1:closing(outline, opening)]):
        declared = part[:blanked(part).find("=")] if "=" in blanked(part) else part
        required_count += declared == part
        named = re.fullmatch(r"(.*[\s*&>])(\w+)", declared.strip(), re.S)
        parameters.append((named[1].strip(), named[2]) if named else (declared.strip(), "?"))
    return Function(owner, match[1], parameters, required_count, "static" in outline[:match.start()].split())


class Headers:
    def __init__(self, paths):
        self.functions = []
        self.aliases = {}
        self.classes = set()  # not structs
        self.pinned = set()  # those that can be neither copied nor moved
        self.fields = {}  # of structs: types
        self._can_be_empty = {}
        for path in paths:
            text = without_comments(path.read_text(encoding="utf-8"))
            movable = set(re.findall(r"\b(\w+)\(\1&&\) noexcept", text))
            self.pinned |= set(re.findall(r"\b(\w+)\(const \1&\) = delete", text)) - movable
            self._read(text)

    def _read(self, text):
        scopes = []  # of each open brace: ("namespace" or "class" or "body", name, is_public)
        start = 0
        outline = blanked(text)

        def note(end):
            if any(kind == "body" for kind, _, _ in scopes):
                return
            statement = text[start:end]
            owner = next((name for kind, name, _ in reversed(scopes) if kind == "class"), "")
            alias = re.match(r"\s*using (\w+) =\s*(.*)$", statement, re.S)
            declared = function_in(statement, owner)
            if owner and not declared:
                self.fields.setdefault(owner, []).append(statement.split("=")[0].strip())
            elif not all(is_public for _, _, is_public in scopes):
                return
            if alias and not alias[2].endswith("::" + alias[1]):
                self.aliases.setdefault(alias[1], alias[2])
            elif declared:
                self.functions.append(declared)

        depth = 0  # of parentheses
        for at, char in enumerate(outline):
            depth += (char == "(") - (char == ")")
            if depth > 0:
                continue
            if char == ";":
                note(at)
            elif char == "{":
                statement = outline[start:at].strip()
                opened = OPENS_CLASS.search(statement)
                if re.match(r"(inline )?namespace\b", statement):
                    scopes.append(("namespace", "", not statement.endswith("detail")))
                elif opened and "(" not in statement:
                    is_class = re.match(r"(template )?\s*class\b", statement) is not None
                    bases = statement[opened.end(1):]
                    if any(re.search(rf"\b{name}\b", bases) for name in self.pinned):
                        self.pinned.add(opened[1])
                    if is_class:
                        self.classes.add(opened[1])
                    scopes.append(("class", opened[1], not is_class))
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

    def base(self, kind):
        """The name of a type without const, references, namespaces and template arguments, and these arguments."""
        kind = re.sub(r"\bconst\b|&|\.\.\.", "", kind).strip()
        match = re.match(r"(?:\w+::)*(\w+)\s*(?:<(.*)>)?\s*(\**)$", kind, re.S)
        if not match:
            return "", ""
        if match[3]:
            return "*", ""
        if match[1] in self.aliases and not match[2]:
            return self.base(self.aliases[match[1]])
        return match[1], match[2] or ""

    def category(self, kind):
        """"text", "list", "function", "pointer", the name of a class that can be empty, or None."""
        name, _ = self.base(kind)
        for words, category in ((TEXT, "text"), (LIST, "list"), (FUNCTION, "function"), (POINTER | {"*"}, "pointer")):
            if name in words:
                return category
        return name if self.can_be_empty(name) else None

    def can_be_empty(self, name):
        """Whether a class can be moved from and then lacks something, or a struct has a member that can be null."""
        if name not in self._can_be_empty:
            self._can_be_empty[name] = False  # ends recursion
            members = [self.category(named[1]) for field in self.fields.get(name, [])
                       if (named := re.fullmatch(r"(.*[\s*&>])(\w+)", field, re.S))]
            ignored = {None} if name in self.classes else {None, "text", "list"}
            self._can_be_empty[name] = name not in self.pinned and any(each not in ignored for each in members)
        return self._can_be_empty[name]

    def element(self, kind):
        name, arguments = self.base(kind)
        return split(arguments)[0] if name in LIST - {"map"} and arguments else None
