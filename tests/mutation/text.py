# SPDX-License-Identifier: Apache-2.0
"""tests/mutation/text.py: finds statements, conditions and operands in formatted C++ text.

Works on text that clang-format has formatted: binary operators have spaces around them, and template
brackets do not. A wrong guess gives code that does not compile, which the build drops."""
import bisect
import re

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = {close: open_ for open_, close in OPEN.items()}
# Words that end an operand to the left of an operator.
WORDS = re.compile(r"\b(return|case|throw|co_return|else|do|in|new|delete)\b")


def mask(text):
    """Returns `text` with comments, preprocessor lines and the contents of literals replaced by spaces."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\''
        r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)

    def blank(match):
        word = match.group(0)
        if word[0] in "\"'R" and len(word) > 1:
            return word[0] + re.sub(r"[^\n]", "_", word[1:-1]) + word[-1]
        return re.sub(r"[^\n]", " ", word)

    return pattern.sub(blank, text)


class Source:
    """A file, with the brackets and the statements of its function bodies."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.masked = mask(text)
        self.lines = [0] + [m.end() for m in re.finditer("\n", text)]
        self.partner = {}  # position of a bracket -> position of its partner
        self.statements = []  # (start, end, head): head is the text before a `{`, and end its position
        self.bodies = []  # (start, end) of outermost function bodies
        self._scan()

    def line(self, position):
        return bisect.bisect_right(self.lines, position)

    def line_span(self, first, last):
        end = self.lines[last] if last < len(self.lines) else len(self.text)
        return self.lines[first - 1], end

    def _scan(self):
        stack = []  # [bracket, position, is in a function, start of the current statement]
        start = 0
        for match in re.finditer(r"[(){}\[\];]", self.masked):
            char, at = match.group(0), match.start()
            inside = bool(stack) and stack[-1][2]
            if char in OPEN:
                is_body = inside
                if char == "{":
                    head = self.masked[start:at]
                    is_body = inside or self._opens_body(head)
                    if is_body and not inside:
                        self.bodies.append([at, None])
                    if inside and (not stack or stack[-1][0] == "{"):
                        self.statements.append((start, at, "{"))
                stack.append([char, at, is_body, start])
                if char == "{":
                    start = at + 1
            elif char in CLOSE:
                if not stack:
                    return
                opened = stack.pop()
                self.partner[opened[1]] = at
                self.partner[at] = opened[1]
                if char == "}":
                    if opened[2] and not (stack and stack[-1][2]):
                        self.bodies[-1][1] = at
                    # A brace that does not end a statement belongs to one: a lambda, an initializer.
                    start = at + 1 if not stack or self._ends_statement(at) else opened[3]
            elif stack and stack[-1][0] == "{":
                if inside:
                    self.statements.append((start, at + 1, ";"))
                start = at + 1
            elif not stack:
                start = at + 1
        self.bodies = [tuple(body) for body in self.bodies if body[1]]

    def _ends_statement(self, at):
        """Whether the `}` at this position ends a statement, unlike that of a lambda or an initializer."""
        return not re.match(r"[;,).(\]}\[]| (?!else|catch|while)", self.masked[at + 1:at + 8])

    @staticmethod
    def _opens_body(head):
        head = head.strip()
        if re.match(r"(template\s*<.*?>\s*)?(inline )?(namespace|struct|class|enum|union|extern)\b", head, re.DOTALL):
            return False
        if re.search(r"\]\s*(\([^{}]*\))?\s*(mutable|noexcept|-> [\w:<>&*]+)*\s*$", head):
            return True  # a lambda
        return bool(re.search(r"\)\s*((const|noexcept|override|final|try|-> [\w:<>&*, ]+|: .*)\s*)*$", head, re.DOTALL)) \
            and not re.search(r"=\s*$", head)

    def in_body(self, position):
        at = bisect.bisect_right(self.bodies, (position, len(self.text))) - 1
        return at >= 0 and self.bodies[at][0] < position < self.bodies[at][1]

    def left_operand(self, operator, stops):
        """The start of the operand that ends before the operator at this position."""
        at = operator - 1
        while at >= 0:
            char = self.masked[at]
            if char in CLOSE:
                if at not in self.partner:
                    return None
                at = self.partner[at] - 1
                continue
            if char in OPEN or char in ";,":
                break
            if char == " " and self._stop_at(at, stops):
                break
            at -= 1
        start = at + 1
        word = None
        for word in WORDS.finditer(self.masked, start, operator):
            pass
        start = word.end() if word else start
        while self.masked[start].isspace():
            start += 1
        return start if start < operator else None

    def _stop_at(self, at, stops):
        """Whether a binary operator of `stops` ends at the space at `at`, seen from its right."""
        before = self.masked[max(0, at - 4):at]
        word = re.search(r"(?:^|\s)(\S+)$", before)
        return bool(word) and word.group(1) in stops

    def right_operand(self, after, stops):
        """The end of the operand that starts at this position."""
        at = after
        while at < len(self.masked):
            char = self.masked[at]
            if char in OPEN:
                if at not in self.partner:
                    return None
                at = self.partner[at] + 1
                continue
            if char in CLOSE or char in ";,":
                break
            if char.isspace():
                word = re.match(r"\s+(\S+)\s", self.masked[at:at + 120])
                if word and word.group(1) in stops:
                    break
            at += 1
        end = at
        while end > after and self.masked[end - 1].isspace():
            end -= 1
        return end if end > after else None
