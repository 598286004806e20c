# SPDX-License-Identifier: Apache-2.0
"""tests/mutation/mistakes.py: the kinds of mistakes, and where they can be planted in a source."""
import re
from dataclasses import dataclass, field

from text import OPEN

# Of 100 mutants, how many are of each kind. `guard`: a condition that always or never holds; `term`: a term of a
# condition dropped; `border`: another comparison; `drop`: a statement dropped; `variable`: another variable
# of the same type; `limit`: min for max, any for all, + for -, front for back.
SHARES = {"guard": 22, "term": 20, "border": 16, "drop": 14, "constant": 9, "variable": 9, "limit": 6, "swap": 4}

ASSIGN = {"=", "+=", "-=", "*=", "/=", "|=", "&=", "^=", "<<=", ">>="}
BELOW_AND = ASSIGN | {"?", ":", "||"}
COMPARE = {"==", "!=", "<", "<=", ">", ">="}
BELOW_COMPARE = BELOW_AND | {"&&", "|", "^", "&"}
BORDERS = {"<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",), "==": ("!=", "<=", ">="), "!=": ("==", "<", ">")}

# Text that affects only messages or speed, and declarations.
SKIPPED = re.compile(r"\b(throw|assert|static_assert|constexpr|log|note|Error|error|fail|refuse|message|reserve|"
                     r"shrink_to_fit|using|typedef|static|reason|explain|describe|warn|trace|visits)\b|\bstd::to_string|\boperator")
DECLARES = re.compile(r"(?:const |volatile |static )*[A-Za-z_][\w:]*(?:<.*>)?(?:::\w+)?[\s*&]+(?:const )?\w+\s*"
                      r"(?:=|\(|\{|;|\[|$)", re.DOTALL)
SYMMETRIC = re.compile(r"\b(min|max|same|are_apart|are_together|gcd|lcm)(<.*>)?\($")  # in their first two arguments
KEYWORDS = {"return", "throw", "if", "for", "while", "else", "case", "delete", "goto", "do", "switch", "default", "auto",
            "using", "typedef", "struct", "public", "private", "co_return", "static_assert", "constexpr", "try", "catch"}


@dataclass
class Mutant:
    """Replaces text[start:end] by `mistake`. To choose at run time whether the mutant is alive, the text is replaced by
    before + original + after, in which $ stands for the call that tells whether it is alive."""
    path: str
    kind: str
    start: int
    end: int
    mistake: str
    before: str
    after: str
    number: int = 0
    removes: bool = False  # removes a guard: an early exit that is not taken, or a condition that always holds
    line: int = 0
    diff: list = field(default_factory=list)

    def crosses(self, other):
        return self.start < other.end and other.start < self.end and not (
            self.start <= other.start and other.end <= self.end) and not (
            other.start <= self.start and self.end <= other.end)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


class Finder:
    """Lists the mutants of a source."""

    def __init__(self, source):
        self.source = source
        self.text = source.text
        self.masked = source.masked
        self.found = []
        self.skipped = [(start, end) for start, end, tail in source.statements
                        if SKIPPED.search(self.masked, start, end) and tail == ";"]
        self.skipped.sort()

    def all(self):
        for start, end, tail in self.source.statements:
            start += len(self.masked[start:end]) - len(self.masked[start:end].lstrip())
            if tail == "{":
                self._condition(start, end)
            else:
                self._statement(start, end)
        self._operators()
        self._constants()
        self._library()
        self._calls()
        self._variables()
        # The middle one of three terms is an operand of two operators, so it is found twice.
        different = {(m.start, m.end, m.mistake): m for m in self.found}
        return [m for m in different.values() if not self._is_skipped(m)]

    def _is_skipped(self, mutant):
        if not self.source.in_body(mutant.start) or "//" in self.text[mutant.start:mutant.end]:
            return True
        line = self.text[slice(*self.source.line_span(self.source.line(mutant.start), self.source.line(mutant.start)))]
        if re.search(r"\b(constexpr|case|static_assert|template)\b", line):
            return True
        # The innermost statement that contains it.
        inside = [s for s in self.source.statements if s[2] == ";" and s[0] <= mutant.start and mutant.end <= s[1]]
        return bool(inside) and bool(SKIPPED.search(self.masked, *min(inside, key=lambda s: s[1] - s[0])[:2]))

    def _add(self, kind, start, end, mistake, before, after):
        self.found.append(Mutant(self.source.path, kind, start, end, mistake, before, after))

    def _choice(self, kind, start, end, mistake):
        """Replaces an expression."""
        self._add(kind, start, end, mistake, f"($ ? ({one_line(mistake)}) : (", "))")

    def _condition(self, start, end):
        head = re.match(r"(?:else )?(if|while) \(", self.masked[start:end])
        if not head:
            return
        first = start + head.end()
        last = self.source.partner.get(first - 1)
        if last is None or last > end:
            return
        first = self._after_declaration(first, last)
        if re.search(r" = ", self.masked[first:last].split("(")[0]):
            return  # declares a variable
        leaves = re.match(r"\{\s*(return|continue|break|throw|(?:\w+::)*(?:refuse|throw|fail)\w*)\b", self.masked[end:end + 200]) is not None
        self._add("guard", first, last, "false", "!$ && (", ")")
        self.found[-1].removes = leaves
        if head.group(1) == "if":
            self._add("guard", first, last, "true", "$ || (", ")")
            self.found[-1].removes = not leaves

    def _after_declaration(self, first, last):
        """The start of a condition after a declaration in the same parentheses, if any."""
        at = first
        while at < last:
            if self.masked[at] == ";":
                return at + 2
            at = self.source.partner.get(at, at) + 1
        return first

    def _statement(self, start, end):
        text = self.masked[start:end]
        word = re.match(r"\w*", text).group(0)
        if text in ("continue;", "break;"):
            self._add("drop", start, end, "", "if (!$) { ", " }")
        elif word not in KEYWORDS and not DECLARES.match(text) and re.match(r"[\w+\-*(]", text) and len(text) > 3 \
                and re.search(r"\(| = |\+\+|--|.= ", text):
            self._add("drop", start, end, "", "if (!$) { ", " }")

    def _operators(self):
        for match in re.finditer(r"(?<=\s)(&&|\|\||==|!=|<=|>=|<|>|\+|-|\+=|-=)(?=\s)", self.masked):
            at, op = match.start(), match.group(1)
            after = match.end() + len(self.masked[match.end():]) - len(self.masked[match.end():].lstrip())
            if op in ("&&", "||"):
                stops = BELOW_AND | {"&&"} if op == "&&" else ASSIGN | {"?", ":", "||"}
                sides = [(self.source.left_operand(at, stops), at - 1), (after, self.source.right_operand(after, stops))]
                for start, end in sides:
                    if start is not None and end is not None and start < end:
                        while self.masked[end - 1].isspace():
                            end -= 1
                        self._add("term", start, end, "true" if op == "&&" else "false",
                                  "($ || (" if op == "&&" else "(!$ && (", "))")
            elif op in BORDERS:
                start = self.source.left_operand(at, BELOW_COMPARE | COMPARE)
                end = self.source.right_operand(after, BELOW_COMPARE | COMPARE)
                if start is not None and end is not None:
                    # The order of enumerators, pointers and iterators has no meaning.
                    plain = re.search(r"\bk[A-Z]|null|end\(\)|begin\(\)|true|false|Op::", self.masked[start:end])
                    for other in BORDERS[op][:1] if plain else BORDERS[op]:
                        self._choice("border", start, end, self.text[start:at] + other + self.text[match.end():end])
            elif op in ("+", "-"):
                self._add("limit", at, at + 1, "-" if op == "+" else "+", "", " ($ ? -1 : 1) *")
            else:
                end = self.source.right_operand(after, set())
                if end is not None:
                    other = "-= " if op == "+=" else "+= "
                    self._add("limit", at, end, other + self.text[after:end], "", ")")
                    self.found[-1].before = op + " ($ ? -1 : 1) * ("
                    self.found[-1].skip = after - at

    def _constants(self):
        for match in re.finditer(r"(?<![\w.])(\d+)([uUlL]*)(?![\w.'])|\b(true|false)\b", self.masked):
            if match.group(3):
                other = "false" if match.group(3) == "true" else "true"
                self._add("constant", match.start(), match.end(), other, "(", " != $)")
            elif self.masked[match.start() - 1] not in "<":
                value, suffix = int(match.group(1)), match.group(2)
                steps = ("+",) if value == 0 else ("+", "-")
                for step in steps:
                    self._add("constant", match.start(), match.end(), f"{value + int(step + '1')}{suffix}",
                              "(", f" {step} ($ ? 1{suffix} : 0{suffix}))")

    def _library(self):
        """Replaces functions of the standard library by their opposites."""
        for match in re.finditer(r"std::(min|max|any_of|all_of)(<[\w:]+>)?\((?=.)", self.masked, re.DOTALL):
            name = match.group(1)
            other = {"min": "max", "max": "min", "any_of": "all_of", "all_of": "any_of"}[name]
            function = {"min": "limit<true{}>", "max": "limit<false{}>", "any_of": "quantify<true>", "all_of": "quantify<false>"}
            types = ", " + match.group(2)[1:-1] if match.group(2) else ""
            self._add("limit", match.start(), match.end(), f"std::{other}{match.group(2) or ''}(", "", "")
            self.found[-1].before = "::yoke_mutation::" + function[name].format(types) + "($, "
            self.found[-1].skip = match.end() - match.start()
        for match in re.finditer(r"[\w.>\-]+(?<![.>])(\.|->)(front|back|first|second)\b(\(\))?", self.masked):
            other = {"front": "back", "back": "front", "first": "second", "second": "first"}[match.group(2)]
            text = match.group(0)
            tail = match.group(2) + (match.group(3) or "")
            self._choice("limit", match.start(), match.end(), text[:-len(tail)] + other + (match.group(3) or ""))

    def _calls(self):
        """Swaps two neighboring arguments."""
        for match in re.finditer(r"(?<![\w.>:\])])(?:\w+(?:\.|->|::))*\w+(?:<[\w:]+>)?\(", self.masked):
            if match.group(0)[:-1] in KEYWORDS or SYMMETRIC.search(match.group(0)) or DECLARES.match(self.masked[max(0, match.start() - 1):match.end()].strip()):
                continue
            before = self.masked[max(0, match.start() - 30):match.start()]
            if re.search(r"[\w>*&] $", before) and not re.search(r"\b(return|else) $", before) and \
                    not re.search(r"[^\w>] $|(&&|[<>=]=?|[-+*/]) $", before):
                continue  # a declaration
            close = self.source.partner.get(match.end() - 1)
            if close is None:
                continue
            arguments = self._split(match.end(), close)
            for one, two in zip(arguments, arguments[1:]):
                a, b = self.masked[slice(*one)], self.masked[slice(*two)]
                if a != b and all(re.fullmatch(r"[\w.:]+(->\w+|\(\)|\[\w+\])*", x) and not x[0].isdigit() for x in (a, b)):
                    self._choice("swap", match.start(), close + 1, self.text[match.start():one[0]] + b +
                                 self.text[one[1]:two[0]] + a + self.text[two[1]:close + 1])

    def _split(self, start, end):
        """The spans between the commas of a list."""
        spans, first, at = [], start, start
        while at < end:
            if self.masked[at] in OPEN and at in self.source.partner:
                at = self.source.partner[at]
            elif self.masked[at] == ",":
                spans.append((first, at))
                first = at + 1
            at += 1
        spans.append((first, end))
        trimmed = []
        for first, last in spans:
            text = self.masked[first:last]
            trimmed.append((first + len(text) - len(text.lstrip()), last - len(text) + len(text.rstrip())))
        return trimmed

    def _variables(self):
        """Replaces a variable by another of the same type that is in scope."""
        named = re.compile(r"(?:(?<=[(,;{] )|(?<=[(;{])|(?<=\n)|(?<=  ))(?:const )?((?:std::)?[A-Za-z][\w:]*(?:<[\w:, ]+>)?)"
                           r"(?: const)?[*&]{0,2}\s[*&]?(\w+)(?=\s?[=,;){:\[(])")
        for first, last in self.source.bodies:
            # The parameters are declared before the body.
            head = max(self.masked.rfind(mark, 0, first) for mark in ";}{") + 1
            scopes = {}
            for match in named.finditer(self.masked, head, last):
                kind, name = match.group(1).replace("std::", ""), match.group(2)
                if kind in KEYWORDS or kind in ("auto", "else", "return", "class", "typename", "namespace"):
                    continue
                scopes.setdefault(name, (kind, match.start(2), self._scope_end(match.start(2), last)))
            for match in re.finditer(r"(?<![\w.:>])([a-z]\w*)\b(?![\w(:{])", self.masked[first:last]):
                self._use(scopes, first + match.start(), match.group(1))

    def _scope_end(self, position, last):
        """The end of the block that a declaration belongs to; for one in a head, the end of its block."""
        depth, at = 0, position
        while at < last:
            char = self.masked[at]
            if char == "{":
                at = self.source.partner.get(at, last)
                if depth < 0:
                    return at
            elif char in "([":
                at = self.source.partner.get(at, last)
            elif char == ")":
                depth -= 1
            elif char == "}":
                return at
            at += 1
        return last

    def _use(self, scopes, at, name):
        known = scopes.get(name)
        if known is None or known[1] >= at or known[2] < at or self._is_capture(at):
            return
        for other, (kind, declared, end) in scopes.items():
            if other != name and kind == known[0] and declared < at < end:
                self._choice("variable", at, at + len(name), other)

    def _is_capture(self, at):
        opened = self.masked.rfind("[", 0, at)
        return opened >= 0 and self.source.partner.get(opened, 0) > at and not re.match(r"[\w\])>]", self.masked[opened - 1])
