# SPDX-License-Identifier: Apache-2.0
"""Rules for the layout of the headers (rules 3, 5, 7, 8), and for changes between two minors (rules 4 and 6)."""

import re

PREFIX = "yoke_plugin"  # rule 3: never changes, not even in a new major
# Rows of arrays, which are passed with their stride (rule 41) and have no struct_size.
ROWS = {"yoke_binding", "yoke_collective", "yoke_format", "yoke_option", "yoke_option_spec", "yoke_profile_record", "yoke_verdict"}
FIXED = re.compile(r"u?int(8|16|32|64)_t$")
SCALARS = {"char", "void", "double", "float"}


def grows(layout, name):
    """Whether members may be appended to a struct: to structs with struct_size and to rows, but not to the prefix and to extensions."""
    struct = layout.structs[name]
    first = struct.members[0] if struct.members else None
    has_size = first is not None and first.name == "struct_size"
    return (has_size or name in ROWS) and name != PREFIX and not struct.header.startswith("ext/")


def shape_problems(layout):
    """One sentence per violation of rules 5, 7 and 8."""
    found = []
    for struct in layout.structs.values():
        where = f"{struct.header}: {struct.name}"
        for member in struct.members:
            if member.bits:
                found.append(f"{where}.{member.name} is a bit-field (rule 7)")
            for word in foreign_words(layout, member.type):
                found.append(f"{where}.{member.name} has the type {word}, whose size depends on the platform; use a "
                             "fixed-width integer (rule 7)")
        sized = [i for i, member in enumerate(struct.members) if member.name == "struct_size"]
        if struct.name != PREFIX and struct.name not in ROWS:
            if sized != [0] or struct.members[0].type != "uint64_t":
                found.append(f"{where} must begin with `uint64_t struct_size` (rule 5), or be one of ROWS in abi_rules.py (rule 41)")
    for name, signature in layout.functions.items():
        found += [f"{name} uses the type {word} (rule 7)" for word in foreign_words(layout, signature)]
    return found + list_problems(layout)


def foreign_words(layout, text):
    """The types in the text of a type that the ABI does not allow."""
    words = re.findall(r"[A-Za-z_]\w*(?: long| int| char| short)*", text.replace("const ", ""))
    known = SCALARS | set(layout.structs) | set(layout.opaque) | set(layout.functions)
    return sorted({word for word in words if word not in known and not FIXED.match(word)})


def list_problems(layout):
    """The list of a table must name exactly its slots, in order (rule 8)."""
    found = []
    for table, name in layout.tables().items():
        slots = [member.name for member in layout.structs[name].members[1:]]
        macro = next(macro for macro, rows in layout.lists.items() if rows and rows[0][0] == name)
        listed = [member for _, member, _ in layout.lists[macro]]
        if slots != listed:
            found.append(f"{table}: the struct has the slots {', '.join(slots)}, but {macro} lists {', '.join(listed)} (rule 8)")
    for struct in layout.structs.values():
        if struct.name.endswith("_api") and struct.name not in [*layout.tables().values(), "yoke_host_api"]:
            found.append(f"{struct.header}: {struct.name} has no YOKE_..._TABLE or no YOKE_..._API_FUNCTIONS (rule 8)")
    return found


def breaks(old, new):
    """One sentence per difference from `old` to `new` that is not an allowed append."""
    found = [f"the header {name} was removed" for name in old.headers if name not in new.headers]
    found += version_breaks(old, new)
    for name, struct in old.structs.items():
        found += struct_breaks(struct, new.structs.get(name), grows(old, name))
    for name in old.opaque:
        if name not in new.opaque:
            found.append(f"the handle {name} was removed, or is no longer opaque")
    for name, signature in old.functions.items():
        if new.functions.get(name) != signature:
            found.append(f"{name} changed from {signature} to {new.functions.get(name, 'nothing')}")
    for old_values, new_values in ((old.numbers, new.numbers), (old.texts, new.texts)):
        for name, value in old_values.items():
            if name not in ("YOKE_ABI_MAJOR", "YOKE_ABI_MINOR") and new_values.get(name) != value:
                found.append(f"the constant {name} changed from {value} to {new_values.get(name, 'nothing')}")
    for macro, rows in old.lists.items():
        found += list_breaks(macro, rows, new.lists.get(macro, []))
    return found


def version_breaks(old, new):
    if new.version() < old.version():
        return ["the version decreased from %d.%d to %d.%d" % (*old.version(), *new.version())]
    if new.version() == old.version() and new.render() != old.render():
        return ["%d.%d is released, and the headers differ from it: increase YOKE_ABI_MINOR" % old.version()]
    return []


def struct_breaks(old, new, may_grow):
    if new is None:
        return [f"{old.name} was removed"]
    found = []
    for i, was in enumerate(old.members):
        now = new.members[i] if i < len(new.members) else None
        if now is None:
            found.append(f"{old.name}.{was.name} was removed")
        elif now != was:
            found.append(f"{old.name}: `{was.name}: {was.type}` ({was.size} bytes at {was.offset}) became "
                         f"`{now.name}: {now.type}` ({now.size} bytes at {now.offset})")
    added = new.members[len(old.members):]
    if (added or new.size != old.size) and not may_grow:
        found.append(f"{old.name} grew, but it is frozen ({'rule 3' if old.name == PREFIX else 'rule 6: a changed struct gets a new id'})")
    for member in added:
        if member.offset < old.size:
            found.append(f"{old.name}.{member.name} was added at {member.offset}, within the {old.size} bytes of the old struct")
    return found


def list_breaks(macro, old, new):
    if new[:len(old)] != old:
        return [f"{macro} does not begin with its old entries in the same order, each required or optional as before"]
    # Plugins of the older minor version lack an appended function and must still load.
    return [f"{macro}: {table}.{member} was appended as required; an appended function must be optional (rule 4)"
            for table, member, need in new[len(old):] if need == "R"]
