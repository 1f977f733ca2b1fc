"""Names that are no regular files, for every command that reads one: pipes, devices, link loops."""

from random import Random

from fuzzing import samples
from fuzzing.case import Case

KINDS = (
    "fifo", "folder", "link /dev/zero", "link /dev/random", "link /dev/full", "link /dev/stdin",
    "link /proc/self/mem", "link /proc/kmsg", "link nowhere", "link .", "link s.pt",
    "link /dev/tty",
)  # fmt: skip
NAMES = ("s.pt", "s.gguf", "s.onnx", "s.safetensors", "s.sqlite", "s.toml", "s.npz", "s.csv",
         "s.npy", "s.txt", "s.py", "s.json", "s.bin", "s")  # fmt: skip


def case(random: Random) -> Case:
    """A command that is given a special file where it wants one with content."""
    name, kind = random.choice(NAMES), random.choice(KINDS)
    argv = random.choice(_commands(name))
    flags = ("--json",) if random.random() < 0.2 else ()
    files = {n: samples.good_files()[n] for n in ("gpt2.safetensors", "transformer.safetensors",
                                                  "toy.sqlite")}  # fmt: skip
    if any(word == "d.toml" for word in argv):
        text = f'family = "simulated"\nT = [5]\ndata = "{name}"\n'
        files["d.toml"] = text.encode()
    special = {name: kind}
    if name == "s.json":  # the configuration beside a checkpoint
        special["config.json"] = kind
        argv = ("audit", "gpt2.safetensors")
    return Case("special", (*argv, *flags), files, kept=tuple(files), special=special)


def _commands(name: str) -> list[tuple[str, ...]]:
    model = "transformer.safetensors"
    return [
        ("audit", name), ("audit", "gpt2.safetensors", "--heads", "2", "--text", name),
        ("verify", name), ("bound", name), ("decompile", name), ("decompile", name, "--run", "a"),
        ("decompile", model, "--data", name, "--p", "0.5"), ("cover", name, "--eps", "1"),
        ("sweep", name, "--store", "new.sqlite"), ("sweep", "d.toml", "--store", "new.sqlite"),
        ("sweep", "smoke", "--store", name), ("thresholds", name),
        ("report", name, "--out", "r.html"),
        ("export", name, "--out", "r.csv"), ("export", "toy.sqlite", "--out", name),
        ("card", "--mine", f"{name}:build", "--T", "5"),
        ("card", "lasso", "--T", "5", "--store", name),
        ("doctor", "--store", name), ("prove", name),
    ]  # fmt: skip
