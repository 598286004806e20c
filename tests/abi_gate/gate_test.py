#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the gates: copies of the headers are changed in many ways, and each gate must reject every change that it can detect."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import abi_comments
import abi_diff
import abi_gate
import abi_layout
import abi_rules

COMPILER = os.environ.get("YOKE_ABI_CC", "cc")
CXX_COMPILER = os.environ.get("YOKE_ABI_CXX", "c++")
HAS_ABIDIFF = shutil.which("abidiff") is not None

CLOSE = "  int32_t (*device_close)(yoke_device* device, yoke_error* error);\n"
SPECS = re.compile(r"  int32_t \(\*option_specs\)\([^;]*;\n")
ABORT = "  int32_t (*device_abort)(yoke_device* device, yoke_error* error);\n"
KIND = re.compile(r"(  uint64_t host_address;.*\n)  int32_t kind;.*\n")  # of yoke_buffer_info
ADDED = "  int32_t (*added)(yoke_device* device, yoke_error* error);\n"
APPENDED = r"\g<0>" + ADDED
LISTED = "  X(yoke_backend_api, option_specs, O)\n"

# name: (header, old text or pattern, new text, gates that reject it). `abidiff` detects changes of types and numbers.
# Only the layout gate detects changes of ids and lists (the text of macros) and of `const`, and knows which structs
# are frozen.
BOTH = ("layout", "abidiff")
BREAKS = {
    "a member inserted in the middle": ("backend.h", CLOSE, ADDED + CLOSE, BOTH),
    "two members of one type swapped": ("backend.h", "  uint64_t streams;\n  uint64_t events;\n",
                                        "  uint64_t events;\n  uint64_t streams;\n", BOTH),
    "members reordered": ("backend.h", re.compile(r"(  int32_t verdict;.*\n)(  int32_t reserved;\n)"), r"\2\1", BOTH),
    "a member inserted in a row": ("backend.h", "  uint64_t offset;", "  uint64_t added;\n  uint64_t offset;", BOTH),
    "a member's type widened": ("backend.h", KIND, r"\1  int64_t kind;\n", BOTH),
    "a member's signedness changed": ("backend.h", KIND, r"\1  uint32_t kind;\n", BOTH),
    "a member split in two of the same total size": ("backend.h", KIND, r"\1  int16_t kind;\n  int16_t kind_high;\n", BOTH),
    "a function removed at the end": ("backend.h", SPECS, "", BOTH),
    "a function removed in the middle": ("backend.h", CLOSE, "", BOTH),
    "a slot reused for another function": ("backend.h", ABORT, ABORT.replace("device_abort", "device_reset"), BOTH),
    "a constant renumbered": ("plugin.h", "#define YOKE_STATUS_NOT_FOUND 5", "#define YOKE_STATUS_NOT_FOUND 25", BOTH),
    "a constant removed": ("plugin.h", "#define YOKE_LOG_TRACE 0\n", "", BOTH),
    "a capacity changed": ("plugin.h", "#define YOKE_NAME_CAPACITY 128", "#define YOKE_NAME_CAPACITY 64", BOTH),
    "a signature changed": ("backend.h", "(*stream_query)(yoke_stream* stream, int32_t*", "(*stream_query)(yoke_stream* stream, uint32_t*", BOTH),
    "a return type changed": ("backend.h", "  void (*buffer_destroy)", "  int32_t (*buffer_destroy)", BOTH),
    "a parameter added": ("plugin.h", "void (*trace_end)(void* host);", "void (*trace_end)(void* host, uint64_t id);", BOTH),
    "the entry's signature changed": ("plugin.h", "typedef int32_t (*yoke_plugin_entry_fn)(const yoke_entry_args* args,",
                                      "typedef int32_t (*yoke_plugin_entry_fn)(yoke_plugin* args,", BOTH),
    "the prefix grown": ("plugin.h", re.compile(r"(yoke_plugin\* plugin, const char\* id\);\n)(};)"), r"\1  uint64_t added;\n\2", BOTH),
    "struct_size not first": ("backend.h", re.compile(r"(  uint64_t struct_size;\n)(  uint64_t used_bytes;.*\n)"), r"\2\1", BOTH),
    "a handle that is no longer opaque": ("backend.h", "typedef struct yoke_event yoke_event;",
                                          "typedef struct yoke_event { uint64_t id; } yoke_event;", BOTH),
    "an extension grown under its old id": ("ext/peer.h", "} yoke_peer_api;", ADDED + "} yoke_peer_api;", BOTH),
    "a table's id changed": ("backend.h", '"yoke.stream/1"\n', '"yoke.stream/2"\n', ("layout",)),
    "a const removed": ("backend.h", "uint64_t dst_offset, const void* src,", "uint64_t dst_offset, void* src,", ("layout",)),
    "a required function appended": ("backend.h", SPECS, APPENDED, ("layout",)),
    "an optional function made required": ("backend.h", "X(yoke_backend_api, fill, O) ", "X(yoke_backend_api, fill, R) ", ("layout",)),
    "a function appended that no list names": ("backend.h", SPECS, APPENDED, ("shape",)),
    "a size_t": ("plugin.h", "void (*trace_end)(void* host);", "void (*trace_end)(void* host);\n  __SIZE_TYPE__ added;", ("shape",)),
    "a bool": ("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  _Bool added;\n", ("shape",)),
    "a bit-field": ("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  uint32_t added : 3;\n", ("shape",)),
    "an enum": ("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  enum yoke_added { kAdded } added;\n", ("shape",)),
    "a new struct without struct_size": ("backend.h", "typedef struct yoke_verdict {",
                                         "struct yoke_added { uint32_t size; };\ntypedef struct yoke_verdict {", ("shape",)),
}
# Further edits that a change needs, so that it breaks one rule only.
ALSO = {
    "a required function appended": [("backend.h", LISTED, LISTED.rstrip("\n") + " X(yoke_backend_api, added, R)\n")],
}

APPENDS = {
    "nothing": [],
    "a comment": [("backend.h", "Tier 1.", "Tier one.")],
    "an optional function at the end of a table": [
        ("backend.h", SPECS, APPENDED), ("backend.h", LISTED, LISTED.rstrip("\n") + " X(yoke_backend_api, added, O)\n")],
    "a member at the end of an info struct": [("backend.h", "  uint64_t routines;\n", "  uint64_t routines;\n  uint64_t added;\n")],
    "a member at the end of a row": [("backend.h", "} yoke_binding;", "  uint64_t added;\n} yoke_binding;")],
    "a function of the host": [("plugin.h", "} yoke_host_api;", "  void (*added)(void* host);\n} yoke_host_api;")],
    "a constant": [("plugin.h", "#define YOKE_STATUS_OUT_OF_DEVICE_MEMORY 17\n",
                    "#define YOKE_STATUS_OUT_OF_DEVICE_MEMORY 17\n#define YOKE_ADDED 18\n")],
    "a handle": [("backend.h", "typedef struct yoke_event yoke_event;",
                  "typedef struct yoke_added yoke_added;\ntypedef struct yoke_event yoke_event;")],
}


def replace(include, header, old, new):
    path = os.path.join(include, "yoke", header)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if isinstance(old, re.Pattern):
        text, count = old.subn(new, text, count=1)
    else:
        text, count = text.replace(old, new, 1), text.count(old)
    if count == 0:
        raise AssertionError(f"{header} does not contain `{old}`; update this test")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


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
        """A copy of the current headers with these edits and the next minor version."""
        include = os.path.join(self.folder, "include")
        shutil.rmtree(include, ignore_errors=True)
        shutil.copytree(abi_gate.CURRENT, include)
        minor = self.old.version()[1]
        for edit in [*edits, ("plugin.h", f"#define YOKE_ABI_MINOR {minor}\n", f"#define YOKE_ABI_MINOR {minor + 1}\n")]:
            replace(include, *edit)
        return include

    def verdicts(self, edits):
        """Gate -> its findings."""
        binary, new = self.read(self.changed(edits), "new")
        found = {"shape": abi_rules.shape_problems(new), "layout": abi_rules.breaks(self.old, new)}
        if HAS_ABIDIFF:
            found["abidiff"] = abi_diff.breaks(self.old, abi_diff.report(self.old_binary, binary))
        return found

    def test_every_break_is_rejected_by_the_gates_that_can_detect_it(self):
        for name, (header, there, put, gates) in BREAKS.items():
            with self.subTest(name):
                found = self.verdicts([(header, there, put), *ALSO.get(name, [])])
                for gate in gates:
                    if gate != "abidiff" or HAS_ABIDIFF:
                        self.assertTrue(found[gate], f"{gate} accepted the change")

    def test_allowed_appends_pass_every_gate(self):
        for name, edits in APPENDS.items():
            with self.subTest(name):
                self.assertEqual({gate: lines for gate, lines in self.verdicts(edits).items() if lines}, {})

    @unittest.skipUnless(HAS_ABIDIFF, "abidiff is not installed (Debian: abigail-tools)")
    def test_breaks_marked_as_layout_only_are_invisible_to_abidiff(self):
        alone = [name for name, row in BREAKS.items() if "layout" in row[3] and "abidiff" not in row[3]]
        for name in alone:
            header, there, put, _ = BREAKS[name]
            with self.subTest(name):
                self.assertEqual(self.verdicts([(header, there, put), *ALSO.get(name, [])])["abidiff"], [],
                                 "abidiff detects this change; add it to the table")

    def test_a_binary_without_debug_information_is_rejected(self):
        stripped = os.path.join(self.folder, "stripped.so")
        subprocess.run(["strip", "-g", "-o", stripped, self.old_binary], check=True)
        with self.assertRaisesRegex(abi_layout.GateError, "has no debug information for yoke_"):
            abi_layout.prove_debug_information(stripped, self.old)

    def test_a_change_of_a_released_minor_is_rejected(self):
        include = os.path.join(self.folder, "same")
        shutil.copytree(abi_gate.CURRENT, include)
        replace(include, *APPENDS["a constant"][0])
        found = abi_rules.breaks(self.old, self.read(include, "same_minor")[1])
        self.assertRegex(" ".join(found), "is released, and the headers differ from it: increase YOKE_ABI_MINOR")

    def golden(self, include):
        return subprocess.run([sys.executable, os.path.join(abi_gate.HERE, "abi_gate.py"), "golden", "--cc", COMPILER, "--cxx", CXX_COMPILER,
                               "--include", include], capture_output=True, text=True, check=False)

    def test_the_golden_file_rejects_even_an_append(self):
        run = self.golden(self.changed(APPENDS["a constant"]))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("+constant YOKE_ADDED = 18", run.stderr)

    def test_a_layout_that_differs_in_cxx_is_rejected(self):
        only_cxx = "  uint64_t routines;\n#ifdef __cplusplus\n  uint64_t added;\n#endif\n"
        run = self.golden(self.changed([("backend.h", "  uint64_t routines;\n", only_cxx)]))
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("c++20 does not have the layout of the debug information", run.stderr)
        self.assertNotIn("c11 does not", run.stderr)

    def test_update_refuses_a_break_of_a_release_and_writes_nothing(self):
        header, there, put, _ = BREAKS["a constant renumbered"]
        frozen, written = os.path.join(self.folder, "frozen"), os.path.join(self.folder, "golden.txt")
        shutil.copytree(abi_gate.CURRENT, os.path.join(frozen, "%d.%d" % self.old.version(), "include"))
        command = ["update", "--cc", COMPILER, "--golden", written, "--include"]
        with unittest.mock.patch.object(abi_gate, "FROZEN", frozen):
            self.assertEqual(abi_gate.main([*command, self.changed([(header, there, put)])]), 1)
            self.assertFalse(os.path.exists(written))
            self.assertEqual(abi_gate.main([*command, self.changed(APPENDS["a constant"])]), 0)
            self.assertTrue(os.path.exists(written))

    def test_messages_state_the_old_and_the_new_member(self):
        header, there, put, _ = BREAKS["a member's type widened"]
        found = "\n".join(self.verdicts([(header, there, put)])["layout"])
        self.assertRegex(found, re.escape("yoke_buffer_info: `kind: int32_t` (4 bytes at 24) became `kind: int64_t` (8 bytes at 24)"))

    def test_comments_that_lack_a_statement_are_rejected(self):
        removed = {
            "a thread tag": ("plugin.h", re.compile(r"\* Threads: \[any-thread\]\. May block\.(\n\s*\* Ownership: owned: `deallocate`)"), r"*\1"),
            "a known thread tag": ("backend.h", "[device-serial]", "[main-thread]"),
            "whether it blocks": ("backend.h", re.compile(r"(Destroys a stream;[^[]*\[stream-serial\]\.) May block\."), r"\1"),
            "who owns what": ("backend.h", "Ownership: *out_code is owned: code_destroy.", ""),
            "a destroy function that exists": ("backend.h", "*out_stream is owned: stream_destroy", "*out_stream is owned: stream_free"),
            "the lifetime of memory": ("backend.h", "`dst` must stay valid until an event", "`dst` must stay valid for an event"),
            "whether NULL is accepted": ("backend.h", "Closes a device; NULL is accepted.", "Closes a device."),
            "a comment": ("backend.h", re.compile(r"  /\* As stream_wait, for the work before the event\.(?:[^*]|\*(?!/))*\*/\n"), ""),
        }
        self.assertEqual(abi_comments.problems(abi_gate.CURRENT), [])
        for name, edit in removed.items():
            with self.subTest(name):
                self.assertNotEqual(abi_comments.problems(self.changed([edit])), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
