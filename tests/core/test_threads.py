"""Backward in threads, inside backward, after a fork, and while the interpreter exits."""

from __future__ import annotations

import contextvars
import ctypes
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from tests.threads import in_threads

import ndgrad
from ndgrad import autograd
from ndgrad._src.core.modes import process, thread
from ndgrad._src.engine.threads import _Worker


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


@pytest.fixture
def hasty():
    """Make threads switch as often as possible, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# ----- several threads -------------------------------------------------------------------------------------------------


def test_gradients_from_many_threads_add_up_in_one_leaf(hasty):
    x = leaf(1.0, 2.0, 3.0)
    in_threads(8, lambda i: [(x * float(i)).sum().backward() for _ in range(50)])
    assert x.grad.tolist() == [50.0 * 28] * 3


def test_gradients_add_up_when_grad_is_cleared_by_others(hasty):
    """Every gradient arrives either in `.grad` or in a value taken out of it: none is lost, none counted twice."""
    x, taken = leaf(0.0), []

    def work(i):
        for _ in range(50):
            (x * 1.0).sum().backward()
            if i == 0:
                from ndgrad._src.core.variable import lock_of

                with lock_of(x):
                    grad, x.grad = x.grad, None
                if grad is not None:
                    taken.append(grad.item())

    in_threads(4, work)
    assert sum(taken) + (0.0 if x.grad is None else x.grad.item()) == 200.0


def test_threads_on_one_graph(hasty):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * w
    y = (h * h + h[0] + (h * 2).view(2)).sum()
    in_threads(8, lambda i: [y.backward(retain_graph=True) for _ in range(25)])
    once = leaf(1.0, 2.0), leaf(3.0, 4.0)
    k = once[0] * once[1]
    (k * k + k[0] + (k * 2).view(2)).sum().backward()
    assert x.grad.tolist() == [200 * g for g in once[0].grad.tolist()]
    assert w.grad.tolist() == [200 * g for g in once[1].grad.tolist()]


def test_threads_that_build_graphs_on_one_leaf_agree_on_its_accumulator(hasty):
    for _ in range(20):
        x, found = leaf(1.0), []

        def work(i, x=x, found=found):
            y = x * 2
            found.append((autograd.graph.get_gradient_edge(x), autograd.grad(y.sum(), x)[0].item(), y))

        in_threads(4, work)
        assert len({id(edge.node) for edge, _, _ in found}) == 1
        assert [g for _, g, _ in found] == [2.0] * 4


def test_threads_under_create_graph_lose_nothing(hasty):
    x = leaf(1.0, 2.0)

    def work(i):
        for _ in range(10):
            autograd.backward((x * x).sum(), create_graph=True)

    with pytest.warns(UserWarning, match="cycle"):
        in_threads(4, work)
    assert x.grad.tolist() == [80.0, 160.0]
    x.grad = None


def test_threads_on_one_buffer_that_was_overwritten(hasty):
    """For Arrays, backward rebuilds overwritten values; threads that do so for one memory do not disturb each other."""
    import ndgrad.numpy as anp

    x = anp.array([0.5, 0.6, 0.7])
    x.requires_grad_()
    u = anp.zeros(40)
    u[0] = x.sum()
    for i in range(1, 40):
        u[i] = anp.sin(u[i - 1]) + x[i % 3] * u[i - 1]
    y = u.sum()
    (expected,) = autograd.grad(y, x, retain_graph=True)
    found = []
    in_threads(4, lambda i: found.extend(autograd.grad(y, x, retain_graph=True)[0].tolist() for _ in range(5)))
    assert found == [expected.tolist()] * 20


def test_modes_of_one_thread_are_not_those_of_another(hasty):
    seen = {}

    def work(i):
        with ndgrad.set_grad_enabled(bool(i % 2)):
            for _ in range(200):
                y = leaf(1.0) * 2
                seen.setdefault(i, set()).add(y.requires_grad)

    in_threads(4, work)
    assert seen == {0: {False}, 1: {True}, 2: {False}, 3: {True}}
    gc.collect()  # an interrupted block holds itself
    assert not process.busy


def test_an_error_stays_in_its_thread():
    class Mine(Exception):
        pass

    x, caught = leaf(1.0), []

    def work(i):
        h = x * 2
        if i == 1:
            h.register_hook(lambda g: (_ for _ in ()).throw(Mine()))
        try:
            h.sum().backward()
        except Mine:
            caught.append(i)

    in_threads(4, work)
    assert caught == [1]
    assert x.grad.tolist() == [6.0]


# ----- backward inside backward ----------------------------------------------------------------------------------------


def nested(depth, at_bottom=lambda: None, per_level=lambda depth: None):
    """Run a backward pass with a backward pass in its hook, and so on; return the gradients summed over all levels."""
    total = [0.0]

    def level(left):
        x = leaf(1.0)
        y = x * 2

        def hook(g):
            per_level(left)
            with ndgrad.enable_grad():
                if left:
                    level(left - 1)
                else:
                    at_bottom()

        y.register_hook(hook)
        y.sum().backward()
        total[0] += x.grad.item()

    level(depth)
    return total[0]


def test_nested_passes_to_great_depth():
    before = threading.active_count()
    assert nested(4_000) == 2.0 * 4_001
    for worker in threading.enumerate():
        if worker.name == "ndgrad-nested-backward":
            worker.join()  # its pass is over, but on a busy machine the thread may end later
    assert threading.active_count() == before
    assert thread.task is None
    gc.collect()  # an interrupted block holds itself
    assert not process.busy


def test_nested_passes_through_custom_functions():
    class Deeper(autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.depth:
                with ndgrad.enable_grad():
                    t = leaf(1.0)
                    Deeper.apply(t, ctx.depth - 1).sum().backward()
                g = g + t.grad
            return g * 2, None

    x = leaf(1.0)
    Deeper.apply(x, 2).sum().backward()
    assert x.grad.tolist() == [14.0]  # 2 (1 + 2 (1 + 2))
    x = leaf(0.0)
    Deeper.apply(x * 0.0, 1000).sum().backward()
    assert x.grad.tolist() == [0.0]


def test_an_error_far_down_comes_up_as_itself_with_its_traceback():
    class Mine(Exception):
        pass

    error = Mine("from the bottom")

    def fail():
        raise error

    with pytest.raises(Mine) as caught:
        nested(300, fail)
    assert caught.value is error
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "fail"
    assert names.count("hook") == 301
    gc.collect()  # an interrupted block holds itself
    assert not process.busy
    assert thread.task is None
    assert nested(3) == 8.0


def test_a_deep_pass_runs_in_the_modes_and_context_of_its_caller():
    variable = contextvars.ContextVar("variable", default="outside")
    seen = set()

    def look(depth):
        seen.add((variable.get(), ndgrad.autograd.is_multithreading_enabled(), len(thread.saved_hooks), np.geterr()["over"]))

    variable.set("inside")
    packs = autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with packs, ndgrad.autograd.set_multithreading_enabled(False):
        nested(200, per_level=look)
    assert seen == {("inside", False, 1, "ignore")}


@pytest.mark.parametrize("depth", [1, 200])
def test_what_a_pass_does_to_the_modes_ends_with_it(depth):
    def change():
        ndgrad.autograd.set_multithreading_enabled(False)

    nested(depth, change)
    assert ndgrad.autograd.is_multithreading_enabled()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals cannot be sent to threads here")
def test_an_interrupt_reaches_the_pass_at_work():
    """The interrupt ends the sleeping pass; the main thread does not wait for the end of its ten minutes."""
    main, slept = threading.main_thread().ident, []

    def interrupt():
        signal.pthread_kill(main, signal.SIGINT)
        for _ in range(12_000):
            time.sleep(0.05)
        slept.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process has no such handler
    try:
        with pytest.raises(KeyboardInterrupt):
            nested(300, interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not slept
    assert nested(100) == 202.0
    gc.collect()  # an interrupted block holds itself
    assert not process.busy


def test_an_interrupt_while_a_thread_starts_reaches_the_pass_at_work(monkeypatch):
    """On a busy machine the passes may reach the bottom of the chain before the first caller has seen its thread start."""
    start, at_bottom, slept = threading.Thread.start, threading.Event(), []

    def start_slowly(self):
        start(self)
        if threading.current_thread() is threading.main_thread() and self.name == "ndgrad-nested-backward":
            at_bottom.wait()
            raise KeyboardInterrupt

    def sleep():
        at_bottom.set()
        for _ in range(12_000):
            time.sleep(0.05)
        slept.append(True)

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    with pytest.raises(KeyboardInterrupt):
        nested(300, sleep)
    assert not slept
    assert not [t for t in threading.enumerate() if t.name == "ndgrad-nested-backward" and not t.is_over]


def test_an_interrupt_before_a_thread_has_begun_leaves_no_thread_at_work(monkeypatch):
    begun = []

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        nested(300, lambda: begun.append(True))
    monkeypatch.undo()
    assert not begun
    assert nested(100) == 202.0


@pytest.mark.parametrize("moment", ["linked", "working", "done"])
def test_an_interrupt_in_a_thread_that_waits_is_passed_on(monkeypatch, moment):
    """The interrupt is raised in the middle of a chain of three threads, while the last one starts, works or has ended."""
    monkeypatch.setattr("ndgrad._src.engine.threads._DEEP", 1)
    slept, workers, works = [], [], threading.Event()
    original = vars(_Worker).copy()

    def throw(worker):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident), ctypes.py_object(KeyboardInterrupt))

    def look(depth):
        if depth < 3:
            workers.append(threading.current_thread())

    def start(self):
        is_last = len(workers) == 2  # before the new thread registers itself
        threading.Thread.start(self)
        if is_last and moment == "linked":
            works.wait()
            throw(workers[1])

    def finish(self):
        original["_run_to_the_end"](self)
        if moment == "done" and len(workers) == 3 and self is workers[2]:
            throw(workers[1])

    def sleep():
        works.set()
        if moment == "working":
            throw(workers[1])
        if moment != "done":
            for _ in range(12_000):
                time.sleep(0.05)
            slept.append(True)

    monkeypatch.setattr(_Worker, "start", start)
    monkeypatch.setattr(_Worker, "_run_to_the_end", finish)
    with pytest.raises(KeyboardInterrupt):
        nested(3, sleep, look)
    assert not slept
    assert [worker.is_over for worker in workers] == [True] * 3
    gc.collect()
    assert not process.busy


def test_depth_without_new_threads(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4000)
    try:
        assert nested(150) == 302.0
    finally:
        sys.setrecursionlimit(limit)


# ----- processes -------------------------------------------------------------------------------------------------------


def run_python(source):
    """Run a program in its own interpreter and return its output; it must end without an error or a warning."""
    done = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(ndgrad.__file__).parents[1])},
        start_new_session=True,
    )
    try:
        printed, complaints = done.communicate(timeout=60)
    finally:
        if done.poll() is None:  # it hangs, and possibly a child process too
            os.killpg(done.pid, signal.SIGKILL) if hasattr(os, "killpg") else done.kill()
            done.communicate()
    assert complaints == ""
    assert done.returncode == 0
    return printed.split()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
def test_a_child_forked_while_other_threads_run_backward_can_run_it_too():
    printed = run_python(
        """
        import os, sys, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of fork with threads
        import numpy as np, ndgrad
        shared = ndgrad.tensor(np.ones(3), requires_grad=True)
        shared.register_hook(lambda g: None)
        stop = False

        def once():
            x = ndgrad.tensor(np.ones(2), requires_grad=True)
            shared.grad = None
            with ndgrad.no_grad():
                x.mul_(3)
            (x * x + shared.sum()).sum().backward()
            return x.grad.tolist() == [6.0, 6.0] and shared.grad.tolist() == [2.0] * 3

        def work():
            while not stop:
                with ndgrad.no_grad():
                    pass
                (shared * 2).sum().backward()

        print(once())  # all imports are done: a fork while another thread imports is beyond help, in Python itself
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if once() else 1)
            _, status = os.waitpid(child, 0)
            print(status)
        stop = True
        for t in threads:
            t.join()
        """
    )
    assert printed == ["True"] + ["0"] * 10


@needs_fork
def test_the_child_of_a_fork_is_not_in_the_modes_of_threads_that_it_does_not_have():
    printed = run_python(
        """
        import os, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import ndgrad
        from ndgrad._src.core.modes import process
        inside, done = threading.Event(), threading.Event()

        def hold():
            with ndgrad.no_grad(), ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                inside.set()
                done.wait()

        threading.Thread(target=hold).start()
        inside.wait()
        with ndgrad.no_grad(), ndgrad.autograd.debug():
            counts = [len(process.busy)]
            child = os.fork()
            if child == 0:
                counts.append(len(process.busy))
        counts.append(len(process.busy))
        if child == 0:
            os._exit(0 if counts == [3, 2, 0] else 1)
        print(os.waitpid(child, 0)[1], *counts)
        done.set()
        """
    )
    assert printed == ["0", "3", "1"]


@needs_fork
def test_a_fork_inside_a_hook():
    printed = run_python(
        """
        import os, sys
        import numpy as np, ndgrad
        x = ndgrad.tensor(np.ones(2), requires_grad=True)
        h = x * 3

        def hook(g):
            child = os.fork()
            if child == 0:
                w = ndgrad.tensor(np.ones(2), requires_grad=True)
                with ndgrad.enable_grad():
                    (w * 5).sum().backward()
                os._exit(0 if w.grad.tolist() == [5.0, 5.0] else 1)
            print(os.waitpid(child, 0)[1])

        h.register_hook(hook)
        h.sum().backward()
        print(x.grad.tolist() == [3.0, 3.0])
        """
    )
    assert printed == ["0", "True"]


def test_exit_while_a_daemon_thread_runs_backward():
    printed = run_python(
        """
        import threading
        import numpy as np, ndgrad
        x = ndgrad.tensor(np.ones(1000), requires_grad=True)
        started = threading.Event()

        def work():
            while True:
                y = x
                for _ in range(50):
                    y = (y * x).sin()
                y.sum().backward()
                started.set()

        threading.Thread(target=work, daemon=True).start()
        started.wait()
        print("leaving")
        """
    )
    assert printed == ["leaving"]


def test_exit_waits_for_a_thread_that_is_no_daemon():
    printed = run_python(
        """
        import threading, time
        import numpy as np, ndgrad
        x = ndgrad.tensor(np.ones(2), requires_grad=True)

        def work():
            time.sleep(0.1)
            (x * 2).sum().backward()
            print(x.grad.tolist() == [2.0, 2.0])

        threading.Thread(target=work).start()
        """
    )
    assert printed == ["True"]


def test_backward_in_the_last_moments():
    """Nested deeper than one stack holds, in atexit functions and in the finalizer of an object that dies there."""
    printed = run_python(
        """
        import atexit
        import numpy as np, ndgrad

        def nested(depth):
            x = ndgrad.tensor(np.ones(2), requires_grad=True)
            y = x * 2
            def hook(g):
                if depth:
                    with ndgrad.enable_grad():
                        nested(depth - 1)
            y.register_hook(hook)
            y.sum().backward()
            return x.grad.tolist() == [2.0, 2.0]

        class Late:
            def __init__(self):
                self.x = ndgrad.tensor(np.ones(2), requires_grad=True)
                self.x.register_hook(lambda g: g * 2)
            def __del__(self):
                (self.x * 3).sum().backward()
                print(self.x.grad.tolist() == [6.0, 6.0])

        late = [Late()]
        atexit.register(late.clear)
        atexit.register(lambda: print(nested(60)))
        """
    )
    assert printed == ["True", "True"]


@pytest.mark.skipif(not hasattr(signal, "SIGVTALRM"), reason="no timers here")
def test_a_signal_handler_may_use_the_library_at_any_moment():
    """The handler interrupts code that enters and leaves modes and accumulates, and does the same itself. The timer counts this process's
    time: on a busy machine, a handler would take longer than wall-clock intervals, and the next one would interrupt it."""
    x, w, count = leaf(1.0, 2.0), leaf(1.0), [0]

    def handler(number, frame):
        count[0] += 1
        with ndgrad.no_grad():
            w.detach().mul(2)
        with ndgrad.enable_grad():
            (w * 1.0).sum().backward()

    handler(None, None)  # objects made on first use take longer than the timer's interval
    before = signal.signal(signal.SIGVTALRM, handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
    passes = 0
    try:
        until = time.process_time() + 0.5
        while time.process_time() < until:
            with ndgrad.no_grad():
                pass
            (x * x).sum().backward()
            passes += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_IGN)  # a pending signal would otherwise end the process
        signal.signal(signal.SIGVTALRM, before)
    assert count[0] > 10
    assert x.grad.tolist() == [2.0 * passes, 4.0 * passes]
    assert w.grad.tolist() == [1.0 * count[0]]
    gc.collect()  # an interrupted block holds itself
    assert not process.busy


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no timers here")
def test_handlers_inside_handlers_do_not_wait_for_a_lock_that_their_own_thread_holds():
    """Handlers pile up until the stack is deep, while the interrupted thread holds the lock of the leaf that they accumulate into: a nested
    pass in another thread would wait for it forever."""
    printed = run_python(
        """
        import signal
        import numpy as np, ndgrad
        from ndgrad._src.core.variable import lock_of
        signal.alarm(30)
        x, w = (ndgrad.tensor(np.ones(2), requires_grad=True) for _ in range(2))
        y = x * 2

        def handlers(depth):
            if depth:
                handlers(depth - 1)
            else:
                with ndgrad.enable_grad():
                    (w * 3.0).sum().backward()

        def hook(g):
            with lock_of(w):  # as in the middle of an accumulation
                handlers(600)

        y.register_hook(hook)
        y.sum().backward()
        print(w.grad.tolist(), x.grad.tolist())
        """
    )
    assert "".join(printed) == "[3.0,3.0][2.0,2.0]"


@needs_fork
def test_a_child_has_no_lock_that_a_thread_it_does_not_have_was_holding():
    # Another thread holds every lock of the package at the moment of the fork, so the child inherits each of them as held.
    printed = run_python(
        """
        import os, signal, threading, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import numpy as np, ndgrad
        import ndgrad.numpy as dnp
        from ndgrad import nn, pytree
        from ndgrad._src.foundations import locks
        from ndgrad.utils.checkpoint import checkpoint

        module = nn.Linear(2, 2)
        lifted = ndgrad.lift(lambda a: np.sum(a * a))
        generator = ndgrad.Generator()
        shared = dnp.ones(4)

        def everything():
            x = ndgrad.ones(2, requires_grad=True)
            x[:1].detach(), shared[1:]
            ndgrad.func.functional_call(module, {"weight": ndgrad.zeros(2, 2)}, (x,))
            array = dnp.ones(2)
            array.requires_grad = True
            lifted(array).backward()
            pytree.register_pytree_node(type("Fresh", (), {}), lambda v: ((), None), lambda c, _: None)
            ndgrad.rand(2, generator=generator), ndgrad.rand(2)
            checkpoint(lambda v: v.exp(), x, use_reentrant=False).sum().backward()
            b = dnp.zeros(3)
            b[0] = y = (array * 2).sum()
            z = (b * b).sum()
            b[...] = 0.0  # which backward undoes
            z.backward()
            with ndgrad.overrides.TorchFunctionMode():
                pass
            ndgrad.autograd.graph.register_multi_grad_hook([x], lambda g: None)
            (x * x).sum().backward()
            return x.grad is not None

        assert everything()
        held, done = threading.Event(), threading.Event()

        def hold():
            taken = [lock for lock in locks._all if lock is not ndgrad.default_generator.lock]
            for lock in taken:
                lock.acquire()
            held.set()
            done.wait()
            for lock in taken:
                lock.release()

        other = threading.Thread(target=hold)
        other.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # the child would wait forever
            os._exit(0 if everything() else 1)
        print(os.waitpid(child, 0)[1])
        done.set()
        other.join()
        print(everything())
        """
    )
    assert printed == ["0", "True"]


def test_every_lock_is_one_that_a_fork_renews():
    source = Path(ndgrad.__file__).parent
    makers = {str(f.relative_to(source)) for f in source.rglob("*.py") if re.search(r"\b(threading\.)?R?Lock\(\)", f.read_text())}
    # A worker's own lock is awaited by the thread that started it, which a child does not have either.
    assert makers == {"_src/foundations/locks.py", "_src/engine/threads.py"}
