# SPDX-License-Identifier: Apache-2.0
"""Reads the complete layout of the ABI's headers from the DWARF of a small shared object that uses all their types."""

import dataclasses
import math
import os
import re
import subprocess


class GateError(Exception):
    """The gate cannot run: there is no compiler, no debug information, or a header does not compile."""


@dataclasses.dataclass
class Member:
    name: str
    offset: int
    size: int
    type: str
    bits: int = 0  # of a bit-field; 0: none


@dataclasses.dataclass
class Struct:
    name: str
    header: str  # relative to include/yoke
    size: int
    members: list


@dataclasses.dataclass
class Layout:
    headers: list
    structs: dict  # name -> Struct
    opaque: list
    functions: dict  # typedef of a function pointer -> signature
    numbers: dict  # macro -> int
    texts: dict  # macro -> string
    lists: dict  # macro -> [(table, member, need)]

    def version(self):
        return self.numbers["YOKE_ABI_MAJOR"], self.numbers["YOKE_ABI_MINOR"]

    def tables(self):
        """Table id -> name of its struct. YOKE_PEER_TABLE belongs to YOKE_PEER_API_FUNCTIONS."""
        found = {}
        for macro, text in self.texts.items():
            listed = self.lists.get(macro.replace("_TABLE", "_API_FUNCTIONS"))
            if macro.endswith("_TABLE") and listed:
                found[text] = listed[0][0]
        return found

    def render(self):
        lines = ["# The exact layout of the plugin ABI. To change it on purpose, see tests/abi_gate/README.md."]
        lines += [f"header {name}" for name in self.headers]
        lines += [f"constant {name} = {value}" for name, value in sorted(self.numbers.items())]
        lines += [f'constant {name} = "{text}"' for name, text in sorted(self.texts.items())]
        lines += [f"handle {name}" for name in self.opaque]
        lines += [f"function {name} = {text}" for name, text in sorted(self.functions.items())]
        for struct in sorted(self.structs.values(), key=lambda s: (s.header, s.name)):
            lines.append(f"struct {struct.name} size {struct.size} in {struct.header}")
            lines += [f"  {m.offset:4} {m.size:4} {m.name}: {m.type}" + (f" : {m.bits} bits" if m.bits else "")
                      for m in struct.members]
        for table, name in sorted(self.tables().items()):
            lines.append(f"table {table} is {name}")
        for macro, rows in sorted(self.lists.items()):
            lines.append(f"list {macro}")
            lines += [f"  {table}.{member} {'required' if need == 'R' else 'optional'}" for table, member, need in rows]
        return "\n".join(lines) + "\n"


def run(command, **options):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    except FileNotFoundError as error:
        raise GateError(f"{command[0]} is not installed: {error}") from error
    if done.returncode != 0:
        raise GateError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def headers_of(include):
    root = os.path.join(include, "yoke")
    found = [os.path.relpath(os.path.join(folder, name), root)
             for folder, _, names in os.walk(root) for name in names if name.endswith(".h")]
    if not found:
        raise GateError(f"no headers in {root}")
    return sorted(found)


def declared(include, headers):
    """Names of the defined structs (with their header), of the opaque structs, and of function pointer typedefs."""
    defined, mentioned, functions = {}, set(), set()
    for header in headers:
        with open(os.path.join(include, "yoke", header), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        defined.update({name: header for name in re.findall(r"\bstruct\s+(yoke_\w+)\s*\{", text)})
        mentioned.update(re.findall(r"\bstruct\s+(yoke_\w+)", text))
        functions.update(re.findall(r"^typedef\b[^;{]*?\(\s*\*\s*(yoke_\w+)\s*\)\s*\(", text, flags=re.M))
    return defined, sorted(mentioned - set(defined)), sorted(functions)


def macros(include, headers, compiler):
    source = "".join(f"#include <yoke/{header}>\n" for header in headers)
    text = run([compiler, "-std=c11", "-E", "-dM", "-I", include, "-x", "c", "-"], input=source)
    found = dict(re.findall(r"^#define (YOKE_\w+)(?:\([^)]*\))? (.+)$", text, flags=re.M))
    return {name: value for name, value in found.items()
            if not name.endswith(("_H_", "_INIT")) and name != "YOKE_EXPORT"}


def write_user(path, include, compiler):
    """Writes C source that uses every type and has an enumerator for every number, so that DWARF describes them all."""
    headers = headers_of(include)
    defined, opaque, functions = declared(include, headers)
    every = macros(include, headers, compiler)
    lists = {name: re.findall(r"X\((\w+), (\w+), ([RO])\)", text) for name, text in every.items()
             if name.endswith("_FUNCTIONS")}
    texts = {name: text[1:-1] for name, text in every.items() if text.startswith('"')}
    numbers = [name for name in every if name not in lists and name not in texts]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"#include <yoke/{header}>\n" for header in headers)
        for name in sorted(defined) + opaque:
            file.write(f"YOKE_EXPORT struct {name}* use_{name}(struct {name}* it) {{ return it; }}\n")
        for name in functions:
            file.write(f"YOKE_EXPORT {name} use_{name}({name} it) {{ return it; }}\n")
        # One enumeration per number, because abidiff ignores enumerators with the same value as another.
        for name in sorted(numbers):
            file.write(f"enum of_{name} {{ value_of_{name} = (int)({name}) }};\n"
                       f"YOKE_EXPORT enum of_{name} use_{name}(enum of_{name} it) {{ return it; }}\n")
    return Layout(headers, {name: header for name, header in defined.items()}, opaque, {name: "" for name in functions},
                  {name: 0 for name in numbers}, texts, lists)


def build(folder, include, compiler):
    """Compiles the source with debug information. Returns the shared object, and a layout that read() completes."""
    os.makedirs(folder, exist_ok=True)
    source, binary = os.path.join(folder, "user.c"), os.path.join(folder, "user.so")
    layout = write_user(source, include, compiler)
    run([compiler, "-std=gnu11", "-gdwarf-4", "-O0", "-shared", "-fPIC", "-nostdlib", "-I", include, source, "-o", binary])
    prove_debug_information(binary, layout)
    return binary, layout


def entries(binary):
    """The DIEs of a binary: offset -> (tag, attributes, children), and the offsets of the outermost DIEs."""
    text = run(["readelf", "--wide", "--debug-dump=info", binary], env={**os.environ, "LC_ALL": "C"})
    dies, parents, top, current = {}, [], [], None
    for line in text.splitlines():
        head = re.match(r"\s*<(\d+)><([0-9a-f]+)>: Abbrev Number: \d+(?: \((DW_TAG_\w+)\))?", line)
        if head:
            current = None
            if head[3]:
                depth, offset = int(head[1]), int(head[2], 16)
                current = dies[offset] = (head[3][7:], {}, [])
                del parents[depth:]
                (parents[-1][2] if parents else top).append(offset)
                parents.append(current)
            continue
        attribute = re.match(r"\s+<[0-9a-f]+>\s+DW_AT_(\w+)\s*:\s*(.*)$", line)
        if attribute and current:
            # The form precedes the value: "(strp) (offset: 0x5b): text", "(indirect string, offset: 0x5b): text".
            value = re.sub(r"^(?:\([^()]*\)\s*)+:?\s*", "", attribute[2]).strip()
            current[1][attribute[1]] = value
    return dies, top


def prove_debug_information(binary, layout):
    """Fails if the binary lacks DWARF. Both gates would find no difference in such a binary, and pass."""
    dies, _ = entries(binary)
    here = {attributes.get("name") for tag, attributes, children in dies.values() if tag == "structure_type" and children}
    missing = sorted(set(layout.structs) - here)
    if missing:
        raise GateError(f"{binary} has no debug information for {', '.join(missing[:3])}"
                        f"{' and others' if len(missing) > 3 else ''}: it was stripped, or compiled without -g")


class Types:
    """The types of a binary as C text, identical for every compiler."""

    BASE = {"long unsigned int": "unsigned long", "long int": "long", "short int": "short",
            "short unsigned int": "unsigned short", "long long int": "long long",
            "long long unsigned int": "unsigned long long"}

    def __init__(self, dies):
        self.dies = dies

    def target(self, attributes):
        reference = re.match(r"<0x([0-9a-f]+)>", attributes.get("type", ""))
        return int(reference[1], 16) if reference else None

    def text(self, offset):
        if offset is None:
            return "void"
        tag, attributes, children = self.dies[offset]
        name, target = attributes.get("name", "(unnamed)"), self.target(attributes)
        if tag == "base_type":
            return self.BASE.get(name, name)
        if tag == "typedef":
            return name
        if tag == "pointer_type":
            inner = self.text(target)
            return inner if inner.startswith("(*)") else inner + "*"
        if tag == "const_type":
            return "const " + self.text(target)
        if tag == "array_type":
            return self.text(target) + "".join(f"[{count}]" for count in self.counts(children))
        if tag == "subroutine_type":
            parameters = [self.text(self.target(self.dies[c][1])) for c in children
                          if self.dies[c][0] == "formal_parameter"]
            return f"(*)({', '.join(parameters)}) -> {self.text(target)}"
        return f"{tag.split('_')[0].replace('structure', 'struct')} {name}" if tag != "structure_type" else name

    def counts(self, children):
        """The sizes of an array's dimensions."""
        bounds = [self.dies[c][1] for c in children if self.dies[c][0] == "subrange_type"]
        return [number(b["count"]) if "count" in b else number(b["upper_bound"]) + 1 for b in bounds]

    def size(self, offset):
        tag, attributes, children = self.dies[offset]
        if tag == "array_type":
            return self.size(self.target(attributes)) * math.prod(self.counts(children))
        if "byte_size" in attributes:
            return number(attributes["byte_size"])
        if tag == "pointer_type":  # clang omits the size
            return 8
        return self.size(self.target(attributes))


def number(text):
    return int(text.split()[0], 0)


def read(binary, layout):
    dies, top = entries(binary)
    types = Types(dies)
    headers = dict(layout.structs)
    for unit in top:
        for offset in dies[unit][2]:
            tag, attributes, children = dies[offset]
            name = attributes.get("name")
            if tag == "structure_type" and name in headers and children:
                layout.structs[name] = Struct(name, headers[name], number(attributes["byte_size"]),
                                              [read_member(types, dies[c][1]) for c in children if dies[c][0] == "member"])
            elif tag == "typedef" and name in layout.functions:
                layout.functions[name] = types.text(types.target(attributes))
            elif tag == "enumeration_type" and name and name.startswith("of_YOKE_"):
                layout.numbers[name[3:]] = number(dies[children[0]][1]["const_value"])
    return layout


def read_member(types, attributes):
    target = types.target(attributes)
    return Member(attributes.get("name", "(unnamed)"), number(attributes.get("data_member_location", "0")),
                  types.size(target), types.text(target), number(attributes.get("bit_size", "0")))


def language_differences(folder, layout, options):
    """Whether C11 and C++20 agree with the layout, which was read from C with GNU extensions: one sentence per language that does not."""
    lines = ["#include <assert.h>", "#include <stddef.h>", *(f"#include <yoke/{header}>" for header in layout.headers)]
    for struct in layout.structs.values():
        lines.append(f'static_assert(sizeof(struct {struct.name}) == {struct.size}, "size of {struct.name}");')
        lines += [f'static_assert(offsetof(struct {struct.name}, {m.name}) == {m.offset}, "offset of {struct.name}.{m.name}");'
                  for m in struct.members if not m.bits]
    source = os.path.join(folder, "assertions.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    found = []
    for compiler, language, standard in ((options.cc, "c", "c11"), (options.cxx, "c++", "c++20")):
        try:
            run([compiler, "-x", language, f"-std={standard}", "-pedantic-errors", "-fsyntax-only", "-I", options.include, source])
        except GateError as error:
            found.append(f"{standard} does not have the layout of the debug information: {error}")
    return found


def layout_of(folder, include, compiler):
    binary, layout = build(folder, include, compiler)
    return read(binary, layout)
