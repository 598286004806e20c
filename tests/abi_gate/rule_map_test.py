#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The map of rules is held against the tree, and not merely read."""

import re
import unittest

import abi_gate
import rule_map

TEXT = rule_map.read(rule_map.RULES)


def added_by(text):
    """What is said of a changed map and not of the map as it is."""
    return sorted(set(rule_map.broken(abi_gate.ROOT, text)) - set(rule_map.broken(abi_gate.ROOT, TEXT)))


def with_names(number, names):
    return re.sub(rf"^(\| {number} \| .+? \|) .+ \|$", rf"\1 {names} |", TEXT, flags=re.M)


class RuleMapTest(unittest.TestCase):
    def test_a_rule_that_is_missing_or_doubled_is_said(self):
        row = re.search(r"^\| 17 .*\n", TEXT, flags=re.M)[0]
        self.assertEqual(added_by(TEXT.replace(row, "")), ["rule 17 stands there 0 times"])
        self.assertEqual(added_by(TEXT.replace(row, row + row)), ["rule 17 stands there 2 times"])
        self.assertIn("there is no rule 40", added_by(TEXT + row.replace("| 17 |", "| 40 |")))

    def test_a_rule_without_anything_that_enforces_it_is_said(self):
        self.assertEqual(added_by(with_names(4, "review")), ["rule 4 names nothing that enforces it"])
        self.assertEqual(added_by(with_names(4, "`cmake/plugin.map`")), ["rule 4 names files only, and no test"])

    def test_a_test_that_is_not_there_is_said(self):
        for name in ("PluginTest.DoesNotExist", "load.does-not-exist", "abi_gate.does_not_exist", "cmake/nothing.map",
                     "cmake/plugin.map: these words are not in it", "SdkTest.ExportsTheEntryAndNothingElse"):
            with self.subTest(name):
                self.assertEqual(added_by(with_names(1, f"`abi_gate.golden` `{name}`")),
                                 [f"rule 1: `{name}` is no test and no file of the tree"])

    def test_every_kind_of_name_is_found(self):
        for name in ("PluginTest.ExportsTheEntryAndNothingElse", "load.exports-one-symbol", "abi_gate.golden", "fuzz.plugin_notes",
                     "drive_plugin.cc", "tests/unit/abi/layout.h: YOKE_SIZE(yoke_plugin, 72)"):
            with self.subTest(name):
                self.assertEqual(added_by(with_names(1, f"`{name}`")), [])

    def test_a_test_that_ctest_does_not_run_is_said(self):
        every = {name for _, _, names in rule_map.rows(TEXT) for name in names}
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every), [])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every - {"load.prefix"}), ["rule 3: ctest does not run `load.prefix`"])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, (every - {"load.prefix"}) | {"some_test_NOT_BUILT"}),
                         ["rule 3: ctest does not run `load.prefix` (not built: some_test)"])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every - {"load.prefix"}, "fuzz[.]"), [])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every - {"fuzz.plugin_notes"}, "fuzz[.]"),
                         ["rule 31: ctest does not run `fuzz.plugin_notes`"])

    def test_the_kits_tests_say_their_rules(self):
        kit = rule_map.conformance_tests(abi_gate.ROOT)
        self.assertGreater(len(kit), 50)
        self.assertIn(1, kit["load.exports-one-symbol"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
