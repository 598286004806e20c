#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that rule_map.py finds defects in the map of rules."""

import re
import unittest

import abi_gate
import rule_map

TEXT = rule_map.read(rule_map.RULES)


def added_by(text):
    """The problems of a changed map that the map itself does not have."""
    return sorted(set(rule_map.problems(abi_gate.ROOT, text)) - set(rule_map.problems(abi_gate.ROOT, TEXT)))


def with_names(number, names):
    return re.sub(rf"^(\| {number} \| .+? \|) .+ \|$", rf"\1 {names} |", TEXT, flags=re.M)


class RuleMapTest(unittest.TestCase):
    def test_missing_and_duplicate_rules_are_found(self):
        row = re.search(r"^\| 17 .*\n", TEXT, flags=re.M)[0]
        self.assertEqual(added_by(TEXT.replace(row, "")), ["rule 17 is listed 0 times"])
        self.assertEqual(added_by(TEXT.replace(row, row + row)), ["rule 17 is listed 2 times"])
        count = rule_map.rule_count(TEXT)
        self.assertIn(f"rule {count + 1} is out of range; rules are numbered 1 to {count}",
                      added_by(TEXT + row.replace("| 17 |", f"| {count + 1} |")))

    def test_rules_without_a_test_are_found(self):
        self.assertEqual(added_by(with_names(4, "review")), ["rule 4 names no test"])
        self.assertEqual(added_by(with_names(4, "`cmake/plugin.map`")), ["rule 4 names only files, not a test"])

    def test_names_that_do_not_exist_are_found(self):
        for name in ("SdkTest.DoesNotExist", "load.does-not-exist", "abi_gate.does_not_exist", "cmake/nothing.map",
                     "cmake/plugin.map: these words are not in it", "OtherTest.ExceptionsBecomeStatusCodes"):
            with self.subTest(name):
                self.assertEqual(added_by(with_names(1, f"`abi_gate.golden` `{name}`")),
                                 [f"rule 1: `{name}` is neither a test nor a file"])

    def test_every_kind_of_name_is_accepted(self):
        for name in ("SdkTest.ExceptionsBecomeStatusCodes", "load.exports-one-symbol", "abi_gate.golden", "fuzz.plugin_notes",
                     "abi_gate.frozen_host_0.3.cc", "tests/abi_gate/abi_rules.py: def list_problems"):
            with self.subTest(name):
                self.assertEqual(added_by(with_names(1, f"`{name}`")), [])

    def test_tests_that_ctest_does_not_run_are_found(self):
        every = {name for _, _, names in rule_map.rows(TEXT) for name in names}
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every), [])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every - {"load.older-hosts"}), ["rule 4: ctest does not run `load.older-hosts`"])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, (every - {"load.older-hosts"}) | {"some_test_NOT_BUILT"}),
                         ["rule 4: ctest does not run `load.older-hosts` (not built: some_test)"])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every - {"load.older-hosts"}, "fuzz[.]"), [])
        self.assertEqual(rule_map.not_run(abi_gate.ROOT, TEXT, every - {"fuzz.plugin_notes"}, "fuzz[.]"),
                         ["rule 31: ctest does not run `fuzz.plugin_notes`"])

    def test_tests_of_the_kit_have_rules(self):
        kit = rule_map.conformance_tests(abi_gate.ROOT)
        self.assertGreater(len(kit), 50)
        self.assertIn(1, kit["load.exports-one-symbol"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
