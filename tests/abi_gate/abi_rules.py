# SPDX-License-Identifier: Apache-2.0
"""What the layout of the headers must be like (rules 3, 5, 7), and what may change between two minors (rules 4, 6)."""

import re

PREFIX = "yoke_plugin"  # rule 3: never changes, across majors
FIXED = re.compile(r"u?int(8|16|32|64)_t$")
SCALARS = {"char", "void", "double", "float"}


def grows(layout, name):
    """Whether a struct may get members at its end: the prefix, rows without struct_size and extensions are frozen."""
    struct = layout.structs[name]
    first = struct.members[0] if struct.members else None
    return (name != PREFIX and not struct.header.startswith("ext/")
            and first is not None and first.name == "struct_size")


def broken_shape(layout):
    """Sentences: what in the headers breaks the rules about shape."""
    said = []
    for struct in layout.structs.values():
        where = f"{struct.header}: {struct.name}"
        for member in struct.members:
            if member.bits:
                said.append(f"{where}.{member.name} is a bit-field (rule 7)")
            for word in foreign_words(layout, member.type):
                said.append(f"{where}.{member.name} has the type {word}, whose size the platform decides; use a "
                            "fixed-width integer (rule 7)")
        sized = [i for i, member in enumerate(struct.members) if member.name == "struct_size"]
        if struct.name != PREFIX and not any(struct.name == row for row in rows_without_size(layout)):
            if sized != [0] or struct.members[0].type != "uint64_t":
                said.append(f"{where} must begin with `uint64_t struct_size` (rule 5)")
    for name, signature in layout.functions.items():
        said += [f"{name} uses the type {word} (rule 7)" for word in foreign_words(layout, signature)]
    return said + unlisted_functions(layout)


def rows_without_size(layout):
    """Structs that are frozen for good, because they lack a size; a new one is a decision, made here."""
    return {"yoke_binding"}


def foreign_words(layout, text):
    """The types in a spelled type that are none of the ABI's."""
    words = re.findall(r"[A-Za-z_]\w*(?: long| int| char| short)*", text.replace("const ", ""))
    known = SCALARS | set(layout.structs) | set(layout.opaque) | set(layout.functions)
    return sorted({word for word in words if word not in known and not FIXED.match(word)})


def unlisted_functions(layout):
    """Every slot of a table is in its list, in order, and the list names nothing else (rule 8)."""
    said = []
    for table, name in layout.tables().items():
        slots = [member.name for member in layout.structs[name].members[1:]]
        macro = next(macro for macro, rows in layout.lists.items() if rows and rows[0][0] == name)
        listed = [member for _, member, _ in layout.lists[macro]]
        if slots != listed:
            said.append(f"{table}: the struct has the slots {', '.join(slots)}, and {macro} lists {', '.join(listed)} (rule 8)")
    for struct in layout.structs.values():
        if struct.name.endswith("_api") and struct.name not in [*layout.tables().values(), "yoke_host_api"]:
            said.append(f"{struct.header}: {struct.name} has no YOKE_..._TABLE and no YOKE_..._API_FUNCTIONS (rule 8)")
    return said


def breaks(old, new):
    """Sentences: every difference from `old` to `new` that is not an append in an allowed place."""
    said = [f"the header {name} is gone" for name in old.headers if name not in new.headers]
    said += broken_versions(old, new)
    for name, struct in old.structs.items():
        said += broken_struct(struct, new.structs.get(name), grows(old, name))
    for name in old.opaque:
        if name not in new.opaque:
            said.append(f"the handle {name} is no longer opaque, or gone")
    for name, signature in old.functions.items():
        if new.functions.get(name) != signature:
            said.append(f"{name} was {signature} and is {new.functions.get(name, 'gone')}")
    for old_values, new_values in ((old.numbers, new.numbers), (old.texts, new.texts)):
        for name, value in old_values.items():
            if name not in ("YOKE_ABI_MAJOR", "YOKE_ABI_MINOR") and new_values.get(name) != value:
                said.append(f"the constant {name} was {value} and is {new_values.get(name, 'gone')}")
    for macro, rows in old.lists.items():
        said += broken_list(macro, rows, new.lists.get(macro, []))
    return said


def broken_versions(old, new):
    if new.version() < old.version():
        return ["the version went back from %d.%d to %d.%d" % (*old.version(), *new.version())]
    if new.version() == old.version() and new.render() != old.render():
        return ["%d.%d is released and differs from itself: raise YOKE_ABI_MINOR" % old.version()]
    return []


def broken_struct(old, new, may_grow):
    if new is None:
        return [f"{old.name} is gone"]
    said = []
    for i, was in enumerate(old.members):
        now = new.members[i] if i < len(new.members) else None
        if now is None:
            said.append(f"{old.name}.{was.name} was removed")
        elif now != was:
            said.append(f"{old.name}: at {was.offset} was `{was.name}: {was.type}` ({was.size} bytes), at {now.offset} is "
                        f"`{now.name}: {now.type}` ({now.size} bytes)")
    added = new.members[len(old.members):]
    if (added or new.size != old.size) and not may_grow:
        said.append(f"{old.name} grew, and it is frozen ({'rule 3' if old.name == PREFIX else 'rule 6: a changed struct gets a new id'})")
    for member in added:
        if member.offset < old.size:
            said.append(f"{old.name}.{member.name} lies at {member.offset}, inside the {old.size} bytes of the old struct")
    return said


def broken_list(macro, old, new):
    if new[:len(old)] != old:
        return [f"{macro} does not begin with what it listed before, in the same order and with the same need"]
    # A plugin of the older minor does not have it, and must still load.
    return [f"{macro}: {table}.{member} was added as required; what is appended is optional (rule 4)"
            for table, member, need in new[len(old):] if need == "R"]
