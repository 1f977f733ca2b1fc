"""Formulas: grown from the grammar, then broken."""

from random import Random

from fuzzing import hostile
from fuzzing.case import Case

_NAMES = ("and", "or", "xor", "parity", "maj", "not", "thr2", "thr0", "thr99", "sym", "table", "x")
_SHORT = ("and3", "or4", "maj5", "xor2", "parity3", "and0", "maj2", "thr2of3", "and99", "xor-1")


def case(random: Random) -> Case:
    """A formula and a command that takes one."""
    formula = _formula(random)
    roll = random.random()
    if roll < 0.75:
        flags = random.choice(((), ("--json",), ("-T", str(random.choice((1, 5, 99))))))
        return Case("formula", ("function", *flags, "--", formula))
    if roll < 0.9:
        size = ("-T", str(random.choice((3, 8, 12))), "-m", str(random.choice((1, 30))))
        more = ("--validation-size", "20", "--max-tries", "20")
        return Case("formula", ("data", *size, *more, "--", formula))
    if roll < 0.98:
        size = ("-T", str(random.choice((3, 8, 12))))
        return Case("formula", ("compile", *size, "--", formula))
    return Case("formula", ("train", "-T", "9", "-m", "30", "--", formula))


def _formula(random: Random) -> str:
    roll = random.random()
    if roll < 0.1:
        return hostile.text(random)
    if roll < 0.2:
        return random.choice(_SHORT)
    text = _grown(random, 4)
    if roll < 0.55:
        return text
    if roll < 0.65:
        return random.choice(("(", "~", "not(", "x1&", "-")) * random.choice((3, 100, 3000)) + text
    letters = list(text)
    for _ in range(random.choice((1, 2, 5))):
        at = random.randrange(len(letters) + 1)
        letters[at : at + random.randrange(3)] = random.choice("()~&^|,;x0123456789 \t-+*.é[]{}\"'")
    return "".join(letters)


def _grown(random: Random, depth: int) -> str:
    roll = random.random()
    if depth == 0 or roll < 0.3:
        digits = random.choice(("0", "1", "2", "3", "7", "11", "007", "99", "4294967296", "9" * 50))
        return random.choice(("x", "x", "x", "~x", "0", "1")) + digits
    if roll < 0.6:
        sign = random.choice((" & ", "|", "^", " & ~"))
        return f"({_grown(random, depth - 1)}{sign}{_grown(random, depth - 1)})"
    name = random.choice(_NAMES)
    inner = ", ".join(_grown(random, depth - 1) for _ in range(random.randrange(4)))
    code = {"sym": random.choice(("0110", "01", "", "2", "0" * 70)),
            "table": random.choice(("0xE8", "0x", "E8", "0xFFFFFFFFFFFFFFFFF"))}  # fmt: skip
    return f"{name}({code[name]}; {inner})" if name in code else f"{name}({inner})"
