"""Formulas to functions: `x2 & x3 & x10`, `~x4 | (x1 & x7)`, `maj(x1, x5, x9)`, `and3`.

Grammar, loosest first; positions are 0-based:
    a | b      or
    a ^ b      exclusive or
    a & b      and
    ~a  !a     not (of a whole comparison, so ~x1 & x2 is (~x1) & x2)
    u == v     equal; also != < <= > >=
    0  1  x7  (a)
    and(a,..)  or(a,..)  xor(a,..) = parity(a,..)  maj(a,..)  not(a)
    thr2(a,..)               at least 2 of the arguments are 1
    sym(0110; a,b,c)         digit k is the value at k ones
    table(0xE8; a,b,c)       bit k of the number is the value in row k = a + 2b + 4c
    count(a,..)              how many of the conditions hold: count(a,b,c) >= 2
    count(2; u,..)           how many of the symbols are 2
    sum(u,..)                the sum of the symbols
Shorthands on positions 0..s-1: `and3`, `or3`, `parity3`, `xor3`, `maj3`, `thr2of5`, `staircase3`,
`leap2of5` (`named_functions.staircase`).

With an alphabet of M > 2 symbols a variable is one of 0..M-1 and not a condition: compare it
(`x3 == x7`, `x3 >= 2`), count it, or look it up (row k = a + M b + M^2 c of a table).

The text is never executed: a hand-written Pratt parser turns it into a truth table, kept as
one Python integer with a bit for each of the M^n rows (`row_sets`).
"""

import re
from dataclasses import dataclass, replace

from capax.boolean import named_functions
from capax.boolean.functions import (
    MAX_SPARSITY,
    SparseFunction,
    check_support,
    most_positions,
)
from capax.boolean.row_sets import COMPARISONS, Rows, RowSets, Term
from capax.errors import InputError, require, shown

MAX_LENGTH, MAX_DEPTH, MAX_ARGUMENTS, MAX_POSITION = 4096, 40, 64, 10**12

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|[A-Za-z_]+[0-9]*|[0-9]+)|(==|!=|<=|>=|[~!&^|(),;<>])|(\S))"
)
TIES = "majority of an even number of bits: a tie counts as 0"
_SHORTHAND = re.compile(
    r"(and|or|xor|parity|maj|staircase)([0-9]{1,6})|(thr|leap)([0-9]{1,6})of([0-9]{1,6})"
)
_VARIABLE, _THRESHOLD = re.compile(r"[xX]([0-9]+)"), re.compile(r"thr([0-9]+)")
_WANTED_ATOM = "formula: wanted a variable such as x0, 0, 1, a function or '(' at column {}, got {}"
_HEADS = {
    "table": (r"0[xX][0-9a-fA-F]+", "a number such as 0xE8"),
    "sym": (r"[01]+", "digits 0 and 1"),
    "count": (r"[0-9]{1,7}", "a symbol such as 2"),
}
_POWER = {"|": 1, "^": 2, "&": 3}
_NAMED = {
    "and": named_functions.conjunction,
    "or": named_functions.disjunction,
    "xor": named_functions.parity,
    "parity": named_functions.parity,
    "maj": named_functions.majority,
    "staircase": named_functions.staircase,
}


def parse(text: str, T: int | None = None, *, alphabet: int = 2) -> SparseFunction:
    """The function of a formula, on its exact support (sorted), with notes on dropped bits.

    `alphabet`: the number M of symbols that a variable can be. Raises `InputError` with the column
    of the mistake; for a position >= T; for more than 20 distinct variables (M^s > 2^20); for a
    text longer than 4096 characters or nested deeper than 40.

    Examples:
        >>> import capax
        >>> f = capax.parse("x2 & ~x5", T=10)
        >>> f.support, f.table.tolist()
        ((2, 5), [0.0, 1.0, 0.0, 0.0])
    """
    require(len(text) <= MAX_LENGTH, "formula", f"at most {MAX_LENGTH} characters", len(text))
    shorthand = _SHORTHAND.fullmatch(text.strip())
    most = most_positions(alphabet)
    if shorthand:
        wanted = f"conditions such as x0 == 1 for an alphabet of {alphabet} symbols"
        require(alphabet == 2, "formula", wanted, shorthand.group())
        return _shorthand(shorthand, T)
    tokens = _tokens(text)
    positions = sorted({p for p in map(_position, tokens) if p is not None})
    require(len(positions) <= most, "formula", f"at most {most} distinct variables", len(positions))
    check_support(positions, T, alphabet)
    parser = _Parser(tokens, RowSets(positions, alphabet))
    f = named_functions.from_table(parser.whole(), positions, T, alphabet).relevant()
    return replace(f, notes=(*f.notes, TIES)) if parser.has_ties else f


def is_shorthand(text: str) -> bool:
    """Whether `text` names a family (`and3`, `thr2of5`) and no positions."""
    return _SHORTHAND.fullmatch(text.strip()) is not None


def _shorthand(match: re.Match[str], T: int | None) -> SparseFunction:
    name, size, counted, r, of = match.groups()
    s = int(size or of)
    require(1 <= s <= MAX_SPARSITY, "formula", f"1 <= s <= {MAX_SPARSITY}", match.group())
    if counted == "leap":
        return named_functions.staircase(range(s), T, jump=int(r)).relevant()
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


@dataclass(frozen=True)
class _Number:
    """A term and its first token; it becomes a condition on demand."""

    term: Term
    token: _Token


_Value = Rows | _Number


class _Parser:
    """Pratt parser over a token list; conditions are sets of rows, everything else is a number."""

    def __init__(self, tokens: list[_Token], rows: RowSets) -> None:
        self.tokens, self.rows, self.at, self.depth = tokens, rows, 0, 0
        self.has_ties = False

    def whole(self) -> Rows:
        result = self.condition(self.expression(0))
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

    def condition(self, value: _Value) -> Rows:
        """A number is a condition when it is 0 or 1 in every row."""
        if isinstance(value, int):
            return value
        term, token = value.term, value.token
        if set(term) <= {0, 1}:
            return term.get(1, 0)
        if not token.text[0].isalpha():
            raise InputError(_WANTED_ATOM.format(token.column, shown(token.text)))
        many = f" (one of {self.rows.alphabet} symbols)" if _position(token) is not None else ""
        raise InputError(
            f"formula: wanted a condition such as {token.text} == 1 at column {token.column}, "
            f"got {shown(token.text)}{many}"
        )

    def number(self, value: _Value) -> Term:
        return self.rows.truth(value) if isinstance(value, int) else value.term

    def expression(self, power: int) -> _Value:
        self.depth += 1
        require(self.depth <= MAX_DEPTH, "formula", f"nesting of at most {MAX_DEPTH}", "deeper")
        left = self.operand()
        while _POWER.get(self.peek(), 0) > power:
            operator = self.take(None, "an operator").text
            a, b = self.condition(left), self.condition(self.expression(_POWER[operator]))
            left = a | b if operator == "|" else a ^ b if operator == "^" else a & b
        self.depth -= 1
        return left

    def operand(self) -> _Value:
        flips = 0
        while self.peek() in ("~", "!"):
            self.at += 1
            flips += 1
        value = self.comparison()
        if not flips:
            return value
        return self.condition(value) ^ (self.rows.full if flips % 2 else 0)

    def comparison(self) -> _Value:
        left = self.atom()
        if self.peek() not in COMPARISONS:
            return left
        sign = self.take(None, "a comparison").text
        return self.rows.compared(self.number(left), sign, self.number(self.atom()))

    def atom(self) -> _Value:
        token = self.take(None, "a variable such as x0, 0, 1, a function or '('")
        position = _position(token)
        if position is not None:
            return _Number(self.rows.variables[position], token)
        if token.text.isdecimal():
            return _Number({int(token.text): self.rows.full}, token)
        if token.text == "(":
            inside = self.expression(0)
            self.take(")", "')'")
            return inside
        if self.peek() == "(" and token.text[0].isalpha():
            return self.call(token)
        raise InputError(_WANTED_ATOM.format(token.column, shown(token.text)))

    def call(self, name: _Token) -> _Value:
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
        """The part before ';' of table(...) and sym(...), and of count(...) if it has one."""
        after = self.tokens[min(self.at + 1, len(self.tokens) - 1)].text
        counted = name.text == "count" and after == ";"
        if name.text not in ("table", "sym") and not counted:
            return ""
        head = self.take(None, "a number").text
        form, example = _HEADS[name.text]
        require(re.fullmatch(form, head), name.text, example, head)
        self.take(";", "';'")
        return head

    def apply(self, name: _Token, head: str, arguments: list[_Value]) -> _Value:
        n, M = len(arguments), self.rows.alphabet
        if name.text == "table":
            fits = int(head, 16).bit_length() <= M**n
            require(fits, "table", f"at most {M**n} bits for {n} arguments", head)
            return self.rows.by_table(int(head, 16), [self.symbol(a) for a in arguments])
        if name.text == "sum":
            return _Number(self.rows.added([self.number(a) for a in arguments]), name)
        if head and name.text == "count":
            c = int(head)
            require(c < M, "count", f"a symbol in 0..{M - 1}", c)
            return _Number(self.rows.count([self.symbol(a).get(c, 0) for a in arguments]), name)
        found = self.rows.count([self.condition(a) for a in arguments])
        if name.text == "count":
            return _Number(found, name)
        self.has_ties |= name.text == "maj" and n % 2 == 0
        values = _values(name, head, n)
        return sum(rows for k, rows in found.items() if values[k])  # disjoint sets of rows

    def symbol(self, value: _Value) -> Term:
        """A number that is a symbol in every row."""
        term = self.number(value)
        wanted = f"symbols in 0..{self.rows.alphabet - 1}"
        require(max(term) < self.rows.alphabet, "formula", wanted, max(term))
        return term


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
        known = "and, or, xor, parity, maj, not, thr<r>, sym, table, count, sum"
        raise InputError(f"formula: unknown function {shown(word)}; known: {known}")
    return [k >= least[word] for k in range(n + 1)]
