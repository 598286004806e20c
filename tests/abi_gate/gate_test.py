#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate blocks: a copy of the headers is changed in many ways, and each gate must see each of them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import abi_comments
import abi_diff
import abi_gate
import abi_layout
import abi_rules

COMPILER = os.environ.get("YOKE_ABI_CC", "cc")
HAS_ABIDIFF = shutil.which("abidiff") is not None

CLOSE = "  int32_t (*device_close)(yoke_device* device, yoke_error* error);\n"
SPECS = ("  int32_t (*option_specs)(yoke_plugin* plugin, uint32_t capacity, yoke_option_spec* specs,\n"
         "                          uint32_t* out_count, yoke_error* error);\n")
ABORT = "  int32_t (*device_abort)(yoke_device* device, yoke_error* error);\n"
KIND = "  int32_t kind;          /* YOKE_MEMORY_* */\n"
MEMORY = "  uint64_t struct_size;\n  uint64_t used_bytes; /* by live buffers of this device */\n"
ADDED = "  int32_t (*added)(yoke_device* device, yoke_error* error);\n"
LISTED = "  X(yoke_backend_api, option_specs, O)\n"

# name: (header, what is there, what is put there, the gates that block it). `abidiff` sees types and numbers; what a macro says in
# text (ids, lists), `const`, and which structs are frozen for good are the layout's matter alone.
BOTH = ("layout", "abidiff")
BREAKS = {
    "a member inserted in the middle": ("backend.h", CLOSE, ADDED + CLOSE, BOTH),
    "two members of one type swapped": ("backend.h", "  uint64_t streams;\n  uint64_t events;\n",
                                        "  uint64_t events;\n  uint64_t streams;\n", BOTH),
    "members reordered": ("backend.h", "  int32_t verdict;\n  int32_t reserved;\n", "  int32_t reserved;\n  int32_t verdict;\n",
                          BOTH),
    "a member's type widened": ("backend.h", KIND, "  int64_t kind;\n", BOTH),
    "a member's sign changed": ("backend.h", KIND, "  uint32_t kind;\n", BOTH),
    "an enumeration's width changed, nothing moves": ("backend.h", KIND, "  int16_t kind;\n  int16_t kind_high;\n", BOTH),
    "a function removed at the end": ("backend.h", SPECS, "", BOTH),
    "a function removed in the middle": ("backend.h", CLOSE, "", BOTH),
    "a slot used again for another function": ("backend.h", ABORT, ABORT.replace("device_abort", "device_reset"), BOTH),
    "a constant renumbered": ("plugin.h", "#define YOKE_NOT_FOUND 5", "#define YOKE_NOT_FOUND 25", BOTH),
    "a constant removed": ("plugin.h", "#define YOKE_LOG_TRACE 0\n", "", BOTH),
    "a capacity changed": ("backend.h", "#define YOKE_NAME_CAPACITY 128", "#define YOKE_NAME_CAPACITY 64", BOTH),
    "a signature changed": ("backend.h", "(*buffer_create)(yoke_device* device, uint64_t byte_count,",
                            "(*buffer_create)(yoke_device* device, uint32_t byte_count,", BOTH),
    "a return type changed": ("backend.h", "  void (*buffer_destroy)", "  int32_t (*buffer_destroy)", BOTH),
    "a parameter added": ("plugin.h", "void (*trace_end)(void* host);", "void (*trace_end)(void* host, uint64_t id);", BOTH),
    "the entry's signature changed": ("plugin.h", "typedef int32_t (*yoke_plugin_entry_fn)(const yoke_entry_args* args,",
                                      "typedef int32_t (*yoke_plugin_entry_fn)(yoke_plugin* args,", BOTH),
    "the prefix grown": ("plugin.h", "  const void* (*get_table)(yoke_plugin* plugin, const char* id);\n",
                         "  const void* (*get_table)(yoke_plugin* plugin, const char* id);\n  uint64_t added;\n", BOTH),
    "struct_size not first": ("backend.h", MEMORY,
                              "  uint64_t used_bytes; /* by live buffers of this device */\n  uint64_t struct_size;\n", BOTH),
    "a handle that shows its inside": ("backend.h", "typedef struct yoke_event yoke_event;",
                                       "typedef struct yoke_event { uint64_t id; } yoke_event;", BOTH),
    "an extension grown under its old id": ("ext/peer.h", "} yoke_peer_api;", ADDED + "} yoke_peer_api;", BOTH),
    "a row without a size grown": ("backend.h", "  uint64_t offset;\n} yoke_binding;", "  uint64_t offset;\n  uint64_t bytes;\n} yoke_binding;",
                                   BOTH),
    "a table's id changed": ("backend.h", '"yoke.stream/1"\n', '"yoke.stream/2"\n', ("layout",)),
    "a const taken away": ("backend.h", "uint64_t dst_offset, const void* src,", "uint64_t dst_offset, void* src,", ("layout",)),
    "a required function appended": ("backend.h", SPECS, SPECS + ADDED, ("layout",)),
    "an optional function made required": ("backend.h", "X(yoke_backend_api, fill, O) ", "X(yoke_backend_api, fill, R) ", ("layout",)),
    "a function appended that no list names": ("backend.h", SPECS, SPECS + ADDED, ("shape",)),
    "a size_t": ("plugin.h", "void (*trace_end)(void* host);", "void (*trace_end)(void* host);\n  __SIZE_TYPE__ added;", ("shape",)),
    "a bool": ("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  _Bool added;\n", ("shape",)),
    "a bit-field": ("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  uint32_t added : 3;\n", ("shape",)),
    "an enum": ("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  enum yoke_added { kAdded } added;\n", ("shape",)),
    "a new struct without struct_size": ("backend.h", "/* Verdicts of", "struct yoke_added { uint32_t size; };\n/* Verdicts of",
                                         ("shape",)),
}
# What comes with a change, so that it is the only thing wrong.
ALSO = {
    "a required function appended": [("backend.h", LISTED, LISTED.rstrip("\n") + " X(yoke_backend_api, added, R)\n")],
}

APPENDS = {
    "nothing": [],
    "a comment": [("backend.h", "/* Tier 1.", "/* Tier one.")],
    "an optional function at the end of a table": [
        ("backend.h", SPECS, SPECS + ADDED), ("backend.h", LISTED, LISTED.rstrip("\n") + " X(yoke_backend_api, added, O)\n")],
    "a member at the end of an info struct": [("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  uint64_t added;\n")],
    "a function of the host": [("plugin.h", "} yoke_host_api;", "  void (*added)(void* host);\n} yoke_host_api;")],
    "a constant": [("plugin.h", "#define YOKE_OUT_OF_DEVICE_MEMORY 17\n",
                    "#define YOKE_OUT_OF_DEVICE_MEMORY 17\n#define YOKE_ADDED 18\n")],
    "a handle": [("backend.h", "typedef struct yoke_event yoke_event;\n",
                  "typedef struct yoke_event yoke_event;\ntypedef struct yoke_added yoke_added;\n")],
}


def replace(include, header, old, new):
    path = os.path.join(include, "yoke", header)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if old not in text:
        raise AssertionError(f"{header} does not hold `{old}` any more: mend this test")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new, 1))


class GateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="yoke_gate_")
        cls.old_binary, cls.old = cls.read(abi_gate.CURRENT, "old")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def read(cls, include, name):
        binary, layout = abi_layout.build(os.path.join(cls.folder, name), include, COMPILER)
        return binary, abi_layout.read(binary, layout)

    def changed(self, edits):
        """The current headers with these edits, as the next minor."""
        include = os.path.join(self.folder, "include")
        shutil.rmtree(include, ignore_errors=True)
        shutil.copytree(abi_gate.CURRENT, include)
        minor = self.old.version()[1]
        for edit in [*edits, ("plugin.h", f"#define YOKE_ABI_MINOR {minor}\n", f"#define YOKE_ABI_MINOR {minor + 1}\n")]:
            replace(include, *edit)
        return include

    def verdicts(self, edits):
        """Gate -> what it says."""
        binary, new = self.read(self.changed(edits), "new")
        said = {"shape": abi_rules.broken_shape(new), "layout": abi_rules.breaks(self.old, new)}
        if HAS_ABIDIFF:
            said["abidiff"] = abi_diff.breaks(self.old, abi_diff.report(self.old_binary, binary))
        return said

    def test_every_break_is_blocked_by_the_gates_that_can_see_it(self):
        for name, (header, there, put, gates) in BREAKS.items():
            with self.subTest(name):
                said = self.verdicts([(header, there, put), *ALSO.get(name, [])])
                for gate in gates:
                    if gate != "abidiff" or HAS_ABIDIFF:
                        self.assertTrue(said[gate], f"{gate} let it pass")

    def test_appends_in_allowed_places_pass_every_gate(self):
        for name, edits in APPENDS.items():
            with self.subTest(name):
                self.assertEqual({gate: lines for gate, lines in self.verdicts(edits).items() if lines}, {})

    @unittest.skipUnless(HAS_ABIDIFF, "abidiff is not installed (Debian: abigail-tools)")
    def test_no_break_is_left_to_the_layout_alone_by_mistake(self):
        alone = [name for name, row in BREAKS.items() if "layout" in row[3] and "abidiff" not in row[3]]
        for name in alone:
            header, there, put, _ = BREAKS[name]
            with self.subTest(name):
                self.assertEqual(self.verdicts([(header, there, put), *ALSO.get(name, [])])["abidiff"], [],
                                 "abidiff sees it after all: say so in the table")

    def test_a_binary_without_debug_information_is_no_proof(self):
        stripped = os.path.join(self.folder, "stripped.so")
        subprocess.run(["strip", "-g", "-o", stripped, self.old_binary], check=True)
        with self.assertRaisesRegex(abi_layout.GateError, "holds no debug information of yoke_"):
            abi_layout.prove_debug_information(stripped, self.old)

    def test_a_change_within_a_released_minor_is_blocked(self):
        include = os.path.join(self.folder, "same")
        shutil.copytree(abi_gate.CURRENT, include)
        replace(include, *APPENDS["a constant"][0])
        said = abi_rules.breaks(self.old, self.read(include, "same_minor")[1])
        self.assertRegex(" ".join(said), "is released and differs from itself: raise YOKE_ABI_MINOR")

    def test_the_golden_file_blocks_even_an_append(self):
        include = self.changed(APPENDS["a constant"])
        run = subprocess.run([sys.executable, os.path.join(abi_gate.HERE, "abi_gate.py"), "golden", "--cc", COMPILER, "--include",
                              include], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("+constant YOKE_ADDED = 18", run.stderr)

    def test_update_refuses_a_break_and_writes_nothing(self):
        header, there, put, _ = BREAKS["a constant renumbered"]
        include, written = self.changed([(header, there, put)]), os.path.join(self.folder, "golden.txt")
        status = abi_gate.main(["update", "--cc", COMPILER, "--include", include, "--golden", written])
        self.assertEqual(status, 1)
        self.assertFalse(os.path.exists(written))

    def test_the_rules_name_what_broke(self):
        header, there, put, _ = BREAKS["a member's type widened"]
        said = "\n".join(self.verdicts([(header, there, put)])["layout"])
        self.assertRegex(said, re.escape("yoke_buffer_info: at 24 was `kind: int32_t` (4 bytes), at 24 is `kind: int64_t` (8 bytes)"))

    def test_comments_without_their_words_are_blocked(self):
        everything = {
            "a thread tag": ("plugin.h", " Threads: [any-thread]. Ownership: owned: `deallocate`", " Ownership: owned: `deallocate`"),
            "an unknown thread tag": ("backend.h", "May block. Threads: [device-serial]", "May block. Threads: [main-thread]"),
            "how long it takes": ("backend.h", "/* Destroys an idle stream; NULL is accepted. May block.",
                                  "/* Destroys an idle stream; NULL is accepted."),
            "who owns what": ("backend.h", "Ownership: *out_code is owned: code_destroy;", ""),
            "an end that is a function": ("backend.h", "*out_stream is owned: stream_destroy", "*out_stream is owned: stream_free"),
            "how long memory must live": ("backend.h", "on a stream `dst` must stay alive until an event recorded behind it is done", ""),
            "that NULL is accepted": ("backend.h", "Closes a device; NULL is accepted.", "Closes a device."),
            "a comment": ("backend.h", "/* As stream_wait, for one point. May block, at most `timeout_ns`. Threads: [any-thread] */", ""),
        }
        self.assertEqual(abi_comments.broken(abi_gate.CURRENT), [])
        for name, edit in everything.items():
            with self.subTest(name):
                self.assertNotEqual(abi_comments.broken(self.changed([edit])), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
