"""Values nobody should have to expect: what every kind of case is seasoned with."""

import datetime
import pickle
import struct
from random import Random
from typing import Any

PLANTED = "PLANTED"
"""No case asks for a file of this name; payloads try to make it."""


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, (f"touch {PLANTED}",)


PICKLES = (
    pickle.dumps(_Bomb()),
    pickle.dumps(_Bomb(), protocol=0),
    f"cos\nsystem\n(S'touch {PLANTED}'\ntR.".encode(),
)
STRINGS = (
    "", " ", "\0", "\n", "x", "-", "--", "-1", "0", "1e999", "nan", "inf", "None", "null", "true",
    "[/b]", "[bold red]", "[link=file:///etc/passwd]x[/link]", "\x1b[2J\x1b[31mred", "\x07",
    "</script><script>document.title='x'</script>", "<svg onload=alert(1)>", "]]>", "&amp;",
    "\u2028\u2029", "\u202ereversed", "\ufeff", "é" * 50, "𝔸𝕥𝕥", "a" * 5000, "[" * 3000, "(" * 3000,
    "{" * 3000, "x0" + "&x1" * 2000, "%s%n%x", "{0.__class__}", "${HOME}", "'; DROP TABLE runs; --",
    f"__import__('os').system('touch {PLANTED}')", f"$(touch {PLANTED})", f"`touch {PLANTED}`",
    f"; touch {PLANTED}", f"| touch {PLANTED}",
    f"!!python/object/apply:os.system ['touch {PLANTED}']",
    "os:system", "os.path", "builtins:exec", "a.py:b", ":", "::", ".", "..", "x.y.z", "\udcff",
    "9" * 5000, "-" + "9" * 400, "1_000", "0x10", "1e308", "５", "١٢",
)  # fmt: skip
INTEGERS = (
    0, 1, -1, 2, 3, 7, 64, 255, 256, 1000, 10**5, 10**6, 2**31 - 1, 2**31, 2**32, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**19, 10**100, 10**400, -(10**400),
)  # fmt: skip
FLOATS = (
    0.0, -0.0, 1.0, 0.5, -1.0, 1e-300, 5e-324, 1e300, 1.7976931348623157e308, 1e-12, 1e12,
    float("nan"), float("inf"), float("-inf"), 0.1, 3.0, 1.0000000000000002,
)  # fmt: skip
MOMENTS = (
    datetime.datetime(1979, 5, 27, 7, 32), datetime.date(1979, 5, 27), datetime.time(7, 32),
)  # fmt: skip


def scalar(random: Random, *, moments: bool = False) -> Any:
    """Any plain value; integers of more than 4000 digits are written by hand where they are."""
    kinds = (STRINGS, INTEGERS, FLOATS, (True, False), MOMENTS if moments else (None,))
    return random.choice(random.choice(kinds))


def value(random: Random, *, moments: bool = False, depth: int = 3) -> Any:
    """A plain value, a list, a table, or one nested deep."""
    roll = random.random()
    if roll < 0.6 or depth == 0:
        return scalar(random, moments=moments)
    if roll < 0.75:
        return [value(random, moments=moments, depth=depth - 1) for _ in range(random.randrange(4))]
    if roll < 0.9:
        names = [text(random) for _ in range(random.randrange(4))]
        return {name: value(random, moments=moments, depth=depth - 1) for name in names}
    nested: Any = scalar(random, moments=moments)
    for _ in range(random.choice((5, 50, 90))):
        nested = [nested] if roll < 0.95 else {"a": nested}
    return nested


def text(random: Random) -> str:
    """A short hostile text, mostly a known one."""
    if random.random() < 0.7:
        return random.choice(STRINGS)
    points = [random.choice((random.randrange(32, 127), random.randrange(0x3000))) for _ in "12345"]
    return "".join(map(chr, points))


def bent(random: Random, tree: Any, *, moments: bool = False) -> Any:
    """`tree` (of dicts and lists) with one node changed, added, doubled or taken away."""
    places = list(_places(tree)) if isinstance(tree, dict | list) else []
    if not places:
        return value(random, moments=moments)
    owner, key = random.choice(places)
    roll = random.random()
    if roll < 0.7:
        owner[key] = value(random, moments=moments)
    elif roll < 0.8:
        del owner[key]
    elif roll < 0.9 and isinstance(owner, dict):
        owner[text(random)] = owner[key]
    else:
        other, there = random.choice(places)
        if there in other if isinstance(other, dict) else there < len(other):
            owner[key] = _copied(other[there])
    return tree


def _places(tree: Any) -> Any:
    """(owner, key) of every node below the root, never deeper than the recursion allows."""
    pending = [tree]
    while pending:
        owner = pending.pop()
        keys = owner if isinstance(owner, dict) else range(len(owner))
        for key in list(keys):
            yield owner, key
            if isinstance(owner[key], dict | list):
                pending.append(owner[key])


def _copied(node: Any) -> Any:
    return pickle.loads(pickle.dumps(node)) if isinstance(node, dict | list) else node  # noqa: S301


def scrambled(random: Random, content: bytes) -> bytes:
    """Bytes flipped, cut, doubled, zeroed, swapped for numbers that do not fit."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5, 20))):
        at = random.randrange(len(data)) if data else 0
        roll = random.randrange(7)
        if roll == 0 and data:
            data[at] ^= 1 << random.randrange(8)
        elif roll == 1 and data:
            data[at] = random.randrange(256)
        elif roll == 2:
            del data[at:]
        elif roll == 3:
            data[at:at] = bytes(random.randrange(256) for _ in range(random.randrange(1, 40)))
        elif roll == 4:
            data[at : at + 512] = bytes(min(512, len(data) - at))
        elif roll == 5:
            number = random.choice((0, 1, 2**31, 2**63 - 1, 2**64 - 1))
            data[at : at + 8] = struct.pack("<Q", number)[: max(0, len(data) - at)]
        else:
            end = min(len(data), at + random.randrange(1, 200))
            data[at:at] = data[at:end]
    return bytes(data)
