#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/mutation/mutate.py: plants random mistakes in the product and counts how many of them the tests find."""
import argparse
import json
import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mistakes import SHARES, Finder
from rooms import ROOMS
from text import Source
from tree import ROOT, Tree

QUICK_S = 0.5  # tests that take less share a process
SLOWEST_FACTOR = 6  # a test that takes this many times longer than without a mutant has found it


def diff_of(source, mutant):
    """The line before, and the lines without and with the mistake."""
    first, last = source.line(mutant.start), source.line(max(mutant.start, mutant.end - 1))
    start, end = source.line_span(first, last)
    before = source.text[start:end]
    after = source.text[start:mutant.start] + mutant.mistake + source.text[mutant.end:end]
    old, new = ([line.strip() for line in text.splitlines() if line.strip()] for text in (before, after))
    while old and new and old[0] == new[0]:
        del old[0], new[0]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    context = source.text[:start].rstrip().rsplit("\n", 1)[-1].strip()
    return [context] + ["- " + line for line in old] + ["+ " + line for line in new] if old + new else []


def identity(mutant):
    return "\n".join([mutant.path, *mutant.diff])


class Sample:
    """The mutants of a room in random order, which depends on the seed. SHARES has the share of each kind."""

    def __init__(self, room, seed, known, only="*"):
        paths = sorted(p for glob in ROOMS[room]["sources"] for p in ROOT.glob(glob) if p.match(only))
        self.sources = {str(p.relative_to(ROOT)): Source(str(p.relative_to(ROOT)), p.read_text()) for p in paths}
        self.random = random.Random(f"{room} {seed}")
        self.known = set(known)  # identities of mutants that must not be taken again
        self.by_kind = {kind: [] for kind in SHARES}
        seen = Counter()  # identities; equal ones get a number
        for source in self.sources.values():
            for mutant in sorted(Finder(source).all(), key=lambda m: m.start):
                mutant.line = source.line(mutant.start)
                mutant.diff = diff_of(source, mutant)
                seen[identity(mutant)] += 1
                if mutant.diff and seen[identity(mutant)] > 1:
                    mutant.diff[0] += f"  // number {seen[identity(mutant)]}"
                self.by_kind[mutant.kind].append(mutant)
        self.identities = {identity(m) for mutants in self.by_kind.values() for m in mutants}
        for mutants in self.by_kind.values():
            self.random.shuffle(mutants)
        self.taken = []

    def next(self):
        """Returns the next mutant that shares no line with a taken one and does not cross one; None if there is none."""
        while any(self.by_kind.values()):
            kinds = [kind for kind in SHARES if self.by_kind[kind]]
            mutant = self.by_kind[self.random.choices(kinds, [SHARES[k] for k in kinds])[0]].pop()
            if mutant.diff and identity(mutant) not in self.known and not self._collides(mutant):
                self.known.add(identity(mutant))
                return mutant
        return None

    def _collides(self, mutant):
        return any(m.path == mutant.path and (m.crosses(mutant) or m.line == mutant.line) for m in self.taken)

    def take(self, identities):
        """Takes the mutants with these identities, those of an earlier run."""
        for mutant in [m for mutants in self.by_kind.values() for m in mutants if identity(m) in identities]:
            if identity(mutant) not in self.known and not self._collides(mutant):
                self.known.add(identity(mutant))
                self.taken.append(mutant)

    def take_guards(self):
        """Takes every mutant that removes a guard or drops a term of a condition."""
        for mutant in sorted(self.by_kind["guard"] + self.by_kind["term"], key=lambda m: (m.path, m.start, -m.end)):
            if (mutant.removes or mutant.kind == "term") and mutant.diff and identity(mutant) not in self.known:
                self.known.add(identity(mutant))
                self.taken.append(mutant)

    def fill(self, count):
        while len(self.taken) < count:
            mutant = self.next()
            if mutant is None:
                return
            self.taken.append(mutant)

    def number(self):
        for number, mutant in enumerate(self.taken, 1):
            mutant.number = number

    def drop_broken(self, places):
        """Drops mutants that do not compile: those on a line with an error, else the smallest around it, else the
        dropped statement before it."""
        broken = []
        for path, line, _ in places:
            own = sorted((m for m in self.taken if m.path == path), key=lambda m: m.line)
            at = [m for m in own if m.line == line]
            source = self.sources.get(path)
            if not at and source:
                around = [m for m in own if m.line <= line <= source.line(m.end)]
                dropped = [m for m in own if m.kind == "drop" and m.line < line]  # maybe a declaration
                at = sorted(around, key=lambda m: m.end - m.start)[:1] or dropped[-1:]
            broken += at
        if not broken:
            raise SystemExit(f"errors without a mutant: {places[:5]}; see build-mutation/build.log")
        self.taken = [m for m in self.taken if all(m is not other for other in broken)]
        return {identity(m) for m in broken}


def build(tree, room, sample, count):
    """Builds the room's tests with `count` mutants, 0 for those already taken; those that do not compile are replaced
    by others, at first. Returns the identities of those that do not compile."""
    broken = set()
    for attempt in range(12):
        if attempt < 3 and count:
            sample.fill(count)
        sample.number()
        tree.write(sample.sources.values(), sample.taken)
        places = tree.compile(ROOMS[room]["targets"])
        if not places:
            return broken
        broken |= sample.drop_broken(places)
    raise SystemExit("the mutants do not compile; see build-mutation/build.log")


def baseline(tree, room, size, limit_s, pool):
    """Runs every test without a mutant. Returns {test: (seconds, reached mutants)} and the tests."""
    tests = tree.tests(ROOMS[room]["tests"], ROOMS[room].get("without"))
    facts = {}
    for name, ran in zip(tests, pool.map(lambda test: tree.run(test, 0, limit_s, record=size + 1), tests.values())):
        if ran.passed:
            facts[name] = (ran.seconds, {n for n in range(1, size + 1) if ran.reached[n]})
        else:
            print(f"{room}: {name} fails without a mutant and is not used", file=sys.stderr)
    return tests, facts


def batches(tests, names):
    """The tests in this order, but all quick ones of a GoogleTest program in one process, the cheapest program first."""
    alone, together = [], {}
    for seconds, name in names:
        command, folder, environment = tests[name]
        filters = [word for word in command if word.startswith("--gtest_filter=")]
        if seconds < QUICK_S and filters:
            together.setdefault(command[0], []).append((seconds, filters[0].partition("=")[2], folder, environment))
        else:
            alone.append((seconds, name, tests[name]))
    for program, quick in sorted(together.items(), key=lambda item: sum(q[0] for q in item[1])):
        command = [program, "--gtest_fail_fast", "--gtest_filter=" + ":".join(q[1] for q in quick)]
        name = quick[0][1] if len(quick) == 1 else f"{len(quick)} tests of {program.rpartition('/')[2]}"
        yield sum(q[0] for q in quick), name, (command, quick[0][2], quick[0][3])
    yield from alone


def judge(tree, tests, facts, mutant):
    """Runs the tests that reach the mutant, the cheapest first, until one fails. Returns its name or None, and how
    many tests reach the mutant."""
    reaching = sorted((seconds, name) for name, (seconds, reached) in facts.items() if mutant.number in reached)
    for seconds, name, test in batches(tests, reaching):
        ran = tree.run(test, mutant.number, SLOWEST_FACTOR * seconds + 5)
        if not ran.passed:
            return ran.last_test or name, len(reaching)
    return None, len(reaching)


def load_equivalent():
    """The mutants in the files of equivalent/, as {identity: reason}."""
    found, block = {}, []
    paths = sorted((Path(__file__).parent / "equivalent").glob("*.txt"))
    for line in "\n\n".join(path.read_text() for path in paths).splitlines() + [""]:
        if line.startswith("#") and not block:  # in a block, it is a preprocessor's line of the report
            continue
        if line.strip():
            block.append(line.rstrip())
        elif block:
            found["\n".join(l for l in block if not l.startswith("reason:"))] = block[-1]
            block = []
    return found


def run_room(tree, room, options, results):
    equivalent = load_equivalent()
    own = {r["identity"]: r for r in results if r["room"] == room}
    again = {i for i, r in own.items() if options.retry and not r["found_by"] and i not in equivalent}
    # Mutants that do not compile are remembered, because each attempt costs a build.
    memory = tree.folder.parent / f"broken-{room}.json"
    broken = set(json.loads(memory.read_text())) if memory.exists() else set()
    sample = Sample(room, options.seed, broken | own.keys() - again, options.only)
    # Mutants of lines that have changed since are forgotten.
    results[:] = [r for r in results if r["room"] != room or r["identity"] in sample.identities or
                  not Path(r["path"]).match(options.only)]
    sample.take(again)
    if options.guards:
        sample.take_guards()
    wanted = 0 if options.guards else len(sample.taken) + max(0, options.count - len(own))
    if wanted == 0 and not sample.taken:
        return
    broken |= build(tree, room, sample, wanted)
    save(memory, sorted(broken))
    with ThreadPoolExecutor(options.jobs) as pool:
        tests, facts = baseline(tree, room, len(sample.taken), options.seconds, pool)
        judged = pool.map(lambda m: (None, 0) if identity(m) in equivalent else judge(tree, tests, facts, m), sample.taken)
        record(room, zip(sample.taken, judged), equivalent, options, results)


def record(room, judged, equivalent, options, results):
    """Adds each verdict to the results as soon as it is known, and prints survivors."""
    for mutant, (test, reaching) in judged:
        results[:] = [r for r in results if r["identity"] != identity(mutant) or r["room"] != room]
        results.append({"room": room, "identity": identity(mutant), "path": mutant.path, "line": mutant.line,
                        "kind": mutant.kind, "diff": mutant.diff, "found_by": test, "reaching_tests": reaching})
        save(options.json, results)
        if test is None and identity(mutant) not in equivalent:
            print(f"\nsurvivor {mutant.path}:{mutant.line} ({mutant.kind}, reached by {reaching} tests)", *mutant.diff,
                  sep="\n  ", flush=True)


def save(path, results):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(results, indent=1) + "\n")


def report(results):
    equivalent = load_equivalent()
    print(f"\n{'room':10} {'mutants':>8} {'found':>6} {'equivalent':>11} {'survivors':>10} {'score':>7}")
    for room in ROOMS:
        own = [r for r in results if r["room"] == room]
        found = sum(1 for r in own if r["found_by"])
        same = sum(1 for r in own if not r["found_by"] and r["identity"] in equivalent)
        if own:
            score = 100.0 * found / max(1, len(own) - same)
            print(f"{room:10} {len(own):8} {found:6} {same:11} {len(own) - found - same:10} {score:6.1f}%")


def list_all(results):
    """Prints every mutant with the test that finds it, or why none can."""
    equivalent = load_equivalent()
    for r in sorted(results, key=lambda r: (r["path"], r["line"])):
        verdict = r["found_by"] or equivalent.get(r["identity"], "SURVIVES")
        change = " ".join(line for line in r["diff"] if line[:2] in ("- ", "+ "))
        print(f"{r['path']}:{r['line']}\t{change}\t{verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--room", action="append", choices=ROOMS, help="a room; may be repeated; default: all")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="only sources of the room whose names match")
    parser.add_argument("--guards", action="store_true",
                        help="instead of a sample: every guard removed, and every term of a condition dropped")
    parser.add_argument("--jobs", type=int, default=2, help="tests that run at once (2)")
    parser.add_argument("--count", type=int, default=40, help="mutants per room (40)")
    parser.add_argument("--seed", type=int, default=1, help="selects the sample (1)")
    parser.add_argument("--json", default=str(ROOT / "build-mutation/results.json"), help="the file with the results")
    parser.add_argument("--resume", action="store_true", help="keep the results in the file; run only the mutants that are missing")
    parser.add_argument("--retry", action="store_true", help="with --resume: run earlier survivors again")
    parser.add_argument("--seconds", type=float, default=300, help="limit for one test without a mutant (300)")
    parser.add_argument("--report", action="store_true", help="print the scores of the file and run nothing")
    parser.add_argument("--list", action="store_true", help="print each mutant of the file with its test and run nothing")
    options = parser.parse_args()
    kept = (options.resume or options.report or options.list) and Path(options.json).exists()
    results = json.loads(Path(options.json).read_text()) if kept else []
    if options.list:
        return list_all(results)
    if not options.report:
        tree = Tree(ROOT / "build-mutation")
        for room in options.room or ROOMS:
            run_room(tree, room, options, results)
            save(options.json, results)
    report(results)


if __name__ == "__main__":
    main()
