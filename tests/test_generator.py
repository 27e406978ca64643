"""Generators: seeds, states, the default one."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad._src.arrays import generator
from ndgrad._src.arrays.generator import Generator, default_generator
from ndgrad._src.foundations.devices import device

# A child process finds the package where this one does.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def draws(g: Generator, n: int = 5) -> list[float]:
    return ndgrad.rand(n, generator=g, dtype=ndgrad.float32).tolist()


# ----- seeds ------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**64 - 1))
def test_draws_from_the_words_of_a_mersenne_twister_with_this_seed(seed: int) -> None:
    words = np.frombuffer(np.random.RandomState(seed % 2**32).bytes(20), "<u4")
    expected = (words % 2**24 / 2**24).astype(np.float32)
    g = Generator().manual_seed(seed)
    assert draws(g) == list(expected)
    assert draws(g.manual_seed(seed)) == list(expected)
    assert g.initial_seed() == seed


@given(st.integers(-(2**63), -1))
def test_negative_seeds_count_from_two_to_the_64(seed: int) -> None:
    g = Generator().manual_seed(seed)
    assert g.initial_seed() == seed + 2**64
    assert draws(g) == draws(Generator().manual_seed(seed + 2**64))


def test_a_deleted_generator_leaves_nothing_to_the_next() -> None:
    for seed in range(5):
        g = Generator().manual_seed(seed)
        ndgrad.randn(1, generator=g)  # keeps a second normal number
        del g
        assert draws(Generator().manual_seed(99)) == draws(Generator().manual_seed(99))
    assert ndgrad.equal(ndgrad.randn(3, generator=Generator()), ndgrad.randn(3, generator=Generator()))


def test_an_unseeded_generator_always_draws_the_same() -> None:
    assert draws(Generator()) == draws(Generator())
    assert Generator().initial_seed() == 67280421310721  # torch's


def test_seed_chooses_a_new_seed_and_returns_it() -> None:
    g = Generator()
    chosen = {g.seed() for _ in range(4)}
    assert len(chosen) == 4
    last = g.seed()
    assert g.initial_seed() == last
    assert draws(g) == draws(Generator().manual_seed(last))


def test_seeds_that_do_not_fit_are_refused() -> None:
    g = Generator().manual_seed(1)
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match=rf"{wrong}.*64 bits"):
            g.manual_seed(wrong)
    with pytest.raises(RuntimeError, match=r"seed 1\.5, of type float"):
        g.manual_seed(1.5)
    assert g.initial_seed() == 1
    assert draws(g) == draws(Generator().manual_seed(1))


# ----- states -----------------------------------------------------------------------------------------------


@given(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 5, 623, 624, 625]), st.booleans())
def test_state_is_restored_exactly(seed: int, before: int, half: bool) -> None:
    g = Generator().manual_seed(seed)
    draws(g, before)
    if half:  # a normal number keeps the other one of its pair for the next draw
        ndgrad.randn(1, generator=g)
    state = g.get_state()
    assert state.dtype == np.uint8
    assert state.ndim == 1
    expected = [*ndgrad.randn(3, generator=g).tolist(), *draws(g)]
    for other in (g, Generator(), Generator().manual_seed(99)):
        assert other.set_state(state) is other
        assert ndgrad.equal(other.get_state(), state)
        assert [*ndgrad.randn(3, generator=other).tolist(), *draws(other)] == expected
        assert other.initial_seed() == seed


def test_state_is_a_copy() -> None:
    g = Generator()
    state = g.get_state()
    before = state.clone()
    draws(g)
    assert (state == before).all()
    state[:] = 0
    assert draws(g.set_state(before)) == draws(Generator())


def test_clone_state_continues_independently() -> None:
    g = Generator().manual_seed(5)
    draws(g)
    twin = g.clone_state()
    assert twin is not g
    assert draws(twin, 3) == draws(g, 3)
    draws(twin)
    assert draws(twin, 3) != draws(g, 3)
    assert twin.initial_seed() == 5


def test_pickles_and_deepcopies_with_its_state() -> None:
    g = Generator().manual_seed(8)
    draws(g)
    copies = [pickle.loads(pickle.dumps(g)), copy.deepcopy(g)]
    expected = draws(g)
    for twin in copies:
        assert draws(twin) == expected
        assert twin.initial_seed() == 8
        assert twin.device is device("cpu")


def test_what_is_no_state_is_refused_and_changes_nothing() -> None:
    g = Generator().manual_seed(2)
    state = g.get_state()
    with pytest.raises(TypeError, match=r"RNG state must be a torch.ByteTensor.*array of float64.*get_state"):
        g.set_state(np.zeros(state.numel()))
    with pytest.raises(RuntimeError, match=r"Expected a CPUGeneratorImplState of size 5056.*to be 3\. .*get_state"):
        g.set_state(state[:3])
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        g.set_state(np.zeros(state.numel(), np.uint8))
    assert (g.get_state() == state).all()


# ----- devices and threads ----------------------------------------------------------------------------------


def test_lives_on_the_cpu_or_on_a_gpu() -> None:
    assert Generator().device is Generator("cpu").device is Generator(device("cpu")).device is device("cpu")
    g = Generator("cuda:0").manual_seed(3)
    assert (g.device, g.initial_seed()) == (device("cuda:0"), 3)
    assert isinstance(g, Generator)
    state = g.get_state()
    assert g.numpy.random() != g.numpy.random()
    assert ndgrad.equal(g.set_state(state).get_state(), state)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda:0'"):
        ndgrad.rand(2, generator=g)
    with pytest.raises(RuntimeError, match=r"device\(type='meta'\).*move the numbers"):
        Generator("meta")


def test_threads_share_one_stream_without_loss() -> None:
    """Drawn by four threads or by one, the numbers are the same set."""
    g = Generator().manual_seed(11)
    drawn: list[float] = []
    start = threading.Barrier(4)

    def draw() -> None:
        start.wait()
        for _ in range(200):
            drawn.extend(draws(g, 1))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == sorted(draws(Generator().manual_seed(11), 800))


def test_lock_may_be_held_while_drawing_seeding_and_saving() -> None:
    g = Generator()
    with g.lock, g.lock:
        state = g.manual_seed(4).get_state()
        first = draws(g)
        assert draws(g.set_state(state)) == first


# ----- the default generator --------------------------------------------------------------------------------


def test_functions_act_on_the_default_generator() -> None:
    assert generator.manual_seed(21) is default_generator
    assert generator.initial_seed() == default_generator.initial_seed() == 21
    assert draws(default_generator) == draws(Generator().manual_seed(21))
    assert generator.manual_seed(7.0).initial_seed() == 7
    assert generator.seed() == generator.initial_seed() != 7


def test_default_generator_starts_differently_in_every_process_and_without_numpy_random() -> None:
    program = "import sys, ndgrad._src.arrays.generator as g; assert 'numpy.random' not in sys.modules; print(g.initial_seed())"
    seeds = {subprocess.check_output([sys.executable, "-c", program], env=ENVIRONMENT) for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("has_drawn", [False, True])
def test_fork_waits_for_other_threads_and_leaves_the_child_unlocked(has_drawn: bool) -> None:
    # In a process of its own: a test runner had better not be forked while it has threads.
    program = f"""
import os, threading, warnings
import ndgrad
import ndgrad._src.arrays.generator as g
warnings.simplefilter("ignore")
g.manual_seed(1)
if {has_drawn}:
    ndgrad.rand(1)
held, stop = threading.Event(), threading.Event()
def hold():
    with g.default_generator.lock:
        held.set()
        stop.wait(0.2)
threading.Thread(target=hold).start()
held.wait()
def draw():
    with g.default_generator.lock:
        ndgrad.rand(1)
def can_draw():  # here, and in a thread to which no lock belongs
    draw()
    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()
child = os.fork()
if child == 0:
    threading.Timer(20, os._exit, [2]).start()
    os._exit(0 if can_draw() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert can_draw()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
