"""Cards: learners of strangers, and hostile lengths, targets, budgets and stores."""

from random import Random

from fuzzing import hostile, samples
from fuzzing.case import Case

SOURCES = (
    "def build(setting):\n    return lambda X, y, **_: (lambda Z: Z[:, 0])\n",
    "class build:\n    def fit(self, X, y): return self\n    def predict(self, X): return 0\n",
    "build = 3\n", "build = None\n", "def build(): pass\n", "raise SystemExit(3)\n",
    "raise KeyboardInterrupt\n", "import nothing_of_this_name\n", "def build(:\n", "", "\0",
    "import os\nos.chdir('/')\ndef build(setting):\n    raise ValueError('[bold]\\x1b[31m')\n",
    "def __getattr__(name):\n    raise RuntimeError(name)\n",
    "build = property(lambda self: 1 / 0)\n",
)  # fmt: skip
LEARNERS = ("lasso", "tree", "mine.py:build", "mine.py:other", "mine.py:", "mine:build", "knn",
            "transformer", "mlp")  # fmt: skip


def case(random: Random) -> Case:
    """`capax card` with one to three options that nobody should have to expect."""
    fits = random.random() < 0.6
    names = ("lasso", "tree") if fits else LEARNERS
    argv = ["card", *random.choices(names, k=random.choice((0, 1, 1, 2)))]
    if random.random() < 0.7:
        argv += ["--mine", "mine.py:build" if fits else random.choice(LEARNERS)]
    given = {"--T": "5", "--jobs": "1", "--store": "card.sqlite"}
    for name in random.sample(list(HOSTILE), random.choice((1, 1, 2, 3))):
        given[name] = (
            random.choice(HOSTILE[name]) if random.random() < 0.8 else hostile.text(random)
        )
    argv += [word for pair in given.items() for word in pair]
    argv += ["--json"] if random.random() < 0.3 else []
    files = {
        "mine.py": (SOURCES[0] if fits else random.choice(SOURCES)).encode(),
        "toy.sqlite": samples.good_files()["toy.sqlite"],
    }
    kept = ("mine.py",) if files["mine.py"] else ()  # an empty file may become a store
    return Case("card", tuple(word.replace("\0", "") for word in argv), files, kept=kept)


def _all(*values: object) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


HOSTILE: dict[str, tuple[str, ...]] = {
    "--T": _all("5,5", "0", "-1", "1", "5,", ",", "10**9", 2**63, "5;6", "1,2,3,4,5,6,7,8"),
    "--target": _all("and3", "maj5", "staircase", "x0 & x9", "and0", "and9", "mixed", "", "and3,,"),
    "--minutes": _all(*hostile.FLOATS), "--m-high": _all(*hostile.INTEGERS),
    "--trials": _all(*hostile.INTEGERS), "--time-limit": _all(*hostile.FLOATS),
    "--noise": _all(*hostile.FLOATS), "--support": _all("contiguous", "random", "none", ""),
    "--jobs": _all(0, -1, 2**31, 3),
    "--store": _all("toy.sqlite", "mine.py", ".", "/nowhere/x", "-"),
    "--html": _all("c.html", ".", "/dev/full", "c.txt"), "--csv": _all("c.csv", ".", "/dev/full"),
}  # fmt: skip
