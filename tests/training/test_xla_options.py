"""Options of the compiler: when to look at one again, and that they are what is used."""

import itertools

import jax
import pytest

from capax.training import Hardware
from capax.training.specs.xla_options import (
    ALL_OPTIONS,
    CPU,
    CPU_DRAW,
    CPU_PIECES_X86,
    CPU_PRODUCTS_X86,
    CPU_SMALL,
    REFUSED,
    drawn_simply,
    in_pieces,
    is_known,
)


def release(version):
    return tuple(int(part) for part in version.split(".")[:2])


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda o: o.name)
def test_options_were_looked_at_with_the_installed_version(option):
    """Fails after an upgrade of JAX: try without the option, then bring its entry up to date."""
    assert release(jax.__version__) <= release(option.jax), f"{option.name}: {option.reason}"
    assert option.reason and option.seen.startswith("20")


def test_options_the_compiler_does_not_know_are_left_out():
    assert not is_known("xla_cpu_no_such_option", True)
    options = Hardware().compiler_options()
    jax.jit(lambda x: x + 1).lower(1.0).compile(compiler_options=options)


def test_a_cpu_has_its_own_options_and_not_the_refused_one(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # the suite itself sets some of these options
    assert Hardware().compiler_options() == {option.name: option.value for option in CPU}
    assert REFUSED.name not in Hardware().compiler_options() | drawn_simply()
    assert drawn_simply() == {CPU_DRAW.name: CPU_DRAW.value}


@pytest.mark.parametrize("machine", ["x86_64", "AMD64", "aarch64"])
def test_networks_in_pieces_have_options_of_their_own_and_more_of_them_where_they_were_measured(
    monkeypatch, machine
):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr("platform.machine", lambda: machine)
    more, products = ((), ()) if machine == "aarch64" else (CPU_PIECES_X86, CPU_PRODUCTS_X86)
    for small, library in itertools.product((False, True), repeat=2):
        wanted = (*more, *(() if library else products), *(CPU_SMALL if small else ()))
        found = in_pieces(small=small, library=library)
        assert found == {option.name: option.value for option in wanted}


def test_options_of_the_user_are_kept(monkeypatch):
    level, parts = CPU_SMALL
    monkeypatch.setenv("XLA_FLAGS", f"--{level.name}=2 --{parts.name}_too=3 --{CPU_DRAW.name}")
    assert not {level.name, CPU_DRAW.name} & {
        *in_pieces(small=True, library=False),
        *drawn_simply(),
    }
    assert in_pieces(small=True, library=False)[parts.name] == parts.value
