"""Formulas to functions: `x2 & x3 & x10`, `~x4 | (x1 & x7)`, `maj(x1, x5, x9)`, `and3`.

Grammar, loosest first; positions are 0-based:
    a | b      or
    a ^ b      exclusive or
    a & b      and
    ~a  !a     not (binds tightest, so ~x1 & x2 is (~x1) & x2)
    0  1  x7  (a)
    and(a,..)  or(a,..)  xor(a,..) = parity(a,..)  maj(a,..)  not(a)
    thr2(a,..)               at least 2 of the arguments are 1
    sym(0110; a,b,c)         digit k is the value at k ones
    table(0xE8; a,b,c)       bit k of the number is the value in row k = a + 2b + 4c
Shorthands on positions 0..s-1: `and3`, `or3`, `parity3`, `xor3`, `maj3`, `thr2of5`.

Nothing is ever executed: a hand-written Pratt parser folds the text into a truth table, kept as
one Python integer with a bit for each of the 2^n rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from capax.boolean import named_functions
from capax.boolean.functions import MAX_SPARSITY, SparseFunction, check_support
from capax.errors import InputError, require, shown

MAX_LENGTH, MAX_DEPTH, MAX_ARGUMENTS, MAX_POSITION = 4096, 40, 64, 10**12

_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|[A-Za-z_]+[0-9]*|[0-9]+)|([~!&^|(),;])|(\S))")
TIES = "majority of an even number of bits: a tie counts as 0"
_SHORTHAND = re.compile(r"(and|or|xor|parity|maj)([0-9]{1,6})|thr([0-9]{1,6})of([0-9]{1,6})")
_VARIABLE, _THRESHOLD = re.compile(r"[xX]([0-9]+)"), re.compile(r"thr([0-9]+)")
_POWER = {"|": 1, "^": 2, "&": 3}
_NAMED = {
    "and": named_functions.conjunction,
    "or": named_functions.disjunction,
    "xor": named_functions.parity,
    "parity": named_functions.parity,
    "maj": named_functions.majority,
}


def parse(text: str, T: int | None = None) -> SparseFunction:
    """The function a formula denotes, on its exact support (sorted), with notes on dropped bits.

    Raises `InputError` with the column of the mistake; for a position >= T; for more than 20
    distinct variables; for a text longer than 4096 characters or nested deeper than 40.

    Examples:
        >>> import capax
        >>> f = capax.parse("x2 & ~x5", T=10)
        >>> f.support, f.table.tolist()
        ((2, 5), [0.0, 1.0, 0.0, 0.0])
    """
    require(len(text) <= MAX_LENGTH, "formula", f"at most {MAX_LENGTH} characters", len(text))
    shorthand = _SHORTHAND.fullmatch(text.strip())
    if shorthand:
        return _shorthand(shorthand, T)
    tokens = _tokens(text)
    positions = sorted({p for p in map(_position, tokens) if p is not None})
    wanted = f"at most {MAX_SPARSITY} distinct variables"
    require(len(positions) <= MAX_SPARSITY, "formula", wanted, len(positions))
    check_support(positions, T)
    parser = _Parser(tokens, _Rows(positions))
    f = named_functions.from_table(parser.whole(), positions, T).relevant()
    return replace(f, notes=(*f.notes, TIES)) if parser.has_ties else f


def is_shorthand(text: str) -> bool:
    """Whether `text` names a family (`and3`, `thr2of5`) and no positions."""
    return _SHORTHAND.fullmatch(text.strip()) is not None


def _shorthand(match: re.Match[str], T: int | None) -> SparseFunction:
    name, size, r, of = match.groups()
    s = int(size or of)
    require(1 <= s <= MAX_SPARSITY, "formula", f"1 <= s <= {MAX_SPARSITY}", match.group())
    f = named_functions.threshold(int(r), range(s), T) if r else _NAMED[name](range(s), T)
    ties = name == "maj" and s % 2 == 0
    return replace(f, notes=(*f.notes, TIES)).relevant() if ties else f.relevant()


@dataclass(frozen=True)
class _Token:
    text: str
    column: int


def _tokens(text: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(text):
        if match.group(3):
            raise InputError(
                f"formula: cannot read {shown(match.group(3))} at column {match.end()}"
            )
        found.append(
            _Token(match.group(1) or match.group(2), match.start(match.lastindex or 0) + 1)
        )
    return [*found, _Token("", len(text) + 1)]


def _position(token: _Token) -> int | None:
    match = _VARIABLE.fullmatch(token.text)
    if match is None:
        return None
    position = int(match.group(1))
    require(position < MAX_POSITION, "formula", f"a position below {MAX_POSITION}", token.text)
    return position


class _Rows:
    """Truth tables over n fixed variables, as integers of 2^n bits."""

    def __init__(self, positions: Sequence[int]) -> None:
        self.size = 1 << len(positions)
        self.full = (1 << self.size) - 1
        self.variables = {p: self._variable(i) for i, p in enumerate(positions)}

    def _variable(self, i: int) -> int:
        """Row r is bit i of r: 2^i zeros, then 2^i ones, repeated (by doubling)."""
        width = 1 << (i + 1)
        pattern = ((1 << (width // 2)) - 1) << (width // 2)
        while width < self.size:
            pattern |= pattern << width
            width *= 2
        return pattern

    def by_count(self, values: Sequence[bool], arguments: Sequence[int]) -> int:
        """values[number of true arguments], from at_least[k] = "at least k are true"."""
        at_least = [self.full, *(0 for _ in arguments), 0]
        for done, x in enumerate(arguments):
            for k in range(done + 1, 0, -1):
                at_least[k] |= at_least[k - 1] & x
        exactly = (at_least[k] ^ at_least[k + 1] for k, value in enumerate(values) if value)
        return sum(exactly)  # disjoint sets of rows: the sum is their union

    def by_table(self, number: int, arguments: Sequence[int]) -> int:
        """Shannon expansion on the last argument; constant halves end at once."""
        half = 1 << len(arguments) >> 1
        if number == 0:
            return 0
        if number == (1 << (1 << len(arguments))) - 1:
            return self.full
        low = self.by_table(number & ((1 << half) - 1), arguments[:-1])
        high = self.by_table(number >> half, arguments[:-1])
        return low ^ (arguments[-1] & (low ^ high))


class _Parser:
    """Pratt parser over a token list; every method returns a truth table."""

    def __init__(self, tokens: list[_Token], rows: _Rows) -> None:
        self.tokens, self.rows, self.at, self.depth = tokens, rows, 0, 0
        self.has_ties = False

    def whole(self) -> int:
        result = self.expression(0)
        self.take("", "an operator or the end")
        return result

    def take(self, text: str | None, wanted: str) -> _Token:
        token = self.tokens[self.at]
        if (token.text == "" and text != "") or (text is not None and token.text != text):
            got = shown(token.text) if token.text else "the end"
            raise InputError(f"formula: wanted {wanted} at column {token.column}, got {got}")
        self.at += 1
        return token

    def peek(self) -> str:
        return self.tokens[min(self.at, len(self.tokens) - 1)].text

    def expression(self, power: int) -> int:
        self.depth += 1
        require(self.depth <= MAX_DEPTH, "formula", f"nesting of at most {MAX_DEPTH}", "deeper")
        left = self.operand()
        while _POWER.get(self.peek(), 0) > power:
            operator = self.take(None, "an operator").text
            right = self.expression(_POWER[operator])
            if operator == "|":
                left |= right
            else:
                left = left ^ right if operator == "^" else left & right
        self.depth -= 1
        return left

    def operand(self) -> int:
        flip = False
        while self.peek() in ("~", "!"):
            self.at += 1
            flip = not flip
        value = self.atom()
        return value ^ self.rows.full if flip else value

    def atom(self) -> int:
        token = self.take(None, "a variable such as x0, 0, 1, a function or '('")
        position = _position(token)
        if position is not None:
            return self.rows.variables[position]
        if token.text in ("0", "1"):
            return self.rows.full * int(token.text)
        if token.text == "(":
            inside = self.expression(0)
            self.take(")", "')'")
            return inside
        if self.peek() == "(" and token.text[0].isalpha():
            return self.call(token)
        raise InputError(
            f"formula: wanted a variable such as x0, 0, 1, a function or '(' "
            f"at column {token.column}, got {shown(token.text)}"
        )

    def call(self, name: _Token) -> int:
        self.take("(", "'('")
        head = self.head(name)
        arguments = [self.expression(0)]
        while self.peek() == ",":
            self.at += 1
            arguments.append(self.expression(0))
        self.take(")", "',' or ')'")
        wanted = f"at most {MAX_ARGUMENTS} arguments"
        require(len(arguments) <= MAX_ARGUMENTS, name.text, wanted, len(arguments))
        return self.apply(name, head, arguments)

    def head(self, name: _Token) -> str:
        """The part before ';' of table(...) and sym(...)."""
        if name.text not in ("table", "sym"):
            return ""
        head = self.take(None, "a number").text
        form = r"0[xX][0-9a-fA-F]+" if name.text == "table" else r"[01]+"
        example = "a number such as 0xE8" if name.text == "table" else "digits 0 and 1"
        require(re.fullmatch(form, head), name.text, example, head)
        self.take(";", "';'")
        return head

    def apply(self, name: _Token, head: str, arguments: list[int]) -> int:
        n = len(arguments)
        if name.text == "table":
            number = int(head, 16)
            fits = number.bit_length() <= 1 << n
            require(fits, "table", f"at most {1 << n} bits for {n} arguments", head)
            return self.rows.by_table(number, arguments)
        self.has_ties |= name.text == "maj" and n % 2 == 0
        return self.rows.by_count(_values(name, head, n), arguments)


def _values(name: _Token, head: str, n: int) -> list[bool]:
    """phi(0..n) of the symmetric function called `name` of n arguments."""
    word, threshold = name.text, _THRESHOLD.fullmatch(name.text)
    if word == "sym":
        require(len(head) == n + 1, "sym", f"{n + 1} digits for {n} arguments", head)
        return [digit == "1" for digit in head]
    if word == "not":
        require(n == 1, "not", "one argument", n)
        return [True, False]
    if word in ("xor", "parity"):
        return [k % 2 == 1 for k in range(n + 1)]
    if threshold:
        r = int(threshold.group(1))
        require(r <= n + 1, word, f"a threshold in 0..{n + 1} for {n} arguments", r)
        return [k >= r for k in range(n + 1)]
    least = {"and": n, "or": 1, "maj": n // 2 + 1}
    if word not in least:
        known = "and, or, xor, parity, maj, not, thr<r>, sym, table"
        raise InputError(f"formula: unknown function {shown(word)}; known: {known}")
    return [k >= least[word] for k in range(n + 1)]
