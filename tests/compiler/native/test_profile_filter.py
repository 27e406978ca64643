"""The native profile function: the events that it passes on are those of `sys.setprofile`, less those of known code."""

from __future__ import annotations

import gc
import sys
import types

import pytest

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.native.c_interface import FREE_THREADED
from ndgrad._src.compiler.native.calls import is_available
from ndgrad._src.compiler.native.profile_filter import ProfileFilter

pytestmark = pytest.mark.skipif(FREE_THREADED or not is_available(), reason="native code cannot be used here")

ALWAYS = sys.intern


def call_from_known(function):
    return function()


def call_from_unknown(function):
    return function()


def measure():
    return len("abc")


def fail():
    raise ValueError("from inside")


def work():
    """Call Python and C code from known and from unknown code."""
    call_from_known(measure)
    call_from_unknown(measure)
    call_from_known(list)
    try:
        call_from_known(fail)
    except ValueError:
        ALWAYS("x")
    return call_from_known(lambda: call_from_unknown(measure))


@pytest.fixture
def make_filter():
    """Return a function that makes a filter with some known code, and keep the filters of a test alive."""
    made = []

    def make(*codes):
        made.append(ProfileFilter(ALWAYS))
        for code in codes:
            made[-1].add(code)
        return made[-1]

    yield make
    assert sys.getprofile() is None


def events(install):
    """Return the events that a profile function sees during `work`."""
    seen = []

    def report(frame, event, arg):
        if frame.f_globals is globals() and arg is not sys.setprofile:
            name = getattr(arg, "__name__", None) if event.startswith("c_") else None
            seen.append((frame.f_code, event, name))

    install(report)
    try:
        assert sys.getprofile() is report
        work()
    finally:
        sys.setprofile(None)
    return [e for e in seen if e[0] is not events.__code__]


def test_events_of_unknown_code_are_those_of_sys_setprofile(make_filter):
    everything = events(sys.setprofile)
    assert {event for _, event, _ in everything} >= {"call", "return", "c_call", "c_return"}
    begins = [e for e in everything if e[1] in ("call", "c_call")]
    assert events(make_filter().install) == begins


def test_calls_of_known_code_are_not_reported(make_filter):
    codes = call_from_known.__code__, measure.__code__
    expected = [e for e in events(sys.setprofile) if e[1] in ("call", "c_call") and e[0] not in codes]
    assert len(expected) > 3
    assert events(make_filter(*codes).install) == expected


def test_one_function_is_reported_from_known_code(make_filter):
    found = events(make_filter(work.__code__).install)
    assert (work.__code__, "c_call", ALWAYS.__name__) in found
    assert all(code is not work.__code__ or name == ALWAYS.__name__ for code, _, name in found)


def test_everything_is_reported_while_a_watcher_wants_it(make_filter):
    calls = make_filter(call_from_known.__code__, work.__code__)
    calls.want_all(1)
    assert events(calls.install) == events(sys.setprofile)
    calls.want_all(-1)
    assert all(code not in (call_from_known.__code__, work.__code__) or name == "intern" for code, _, name in events(calls.install))


def test_thousands_of_known_functions_are_found(make_filter):
    codes = [compile("def f(): return len('ab')", f"<{i}>", "exec").co_consts[0] for i in range(5000)]
    calls = make_filter(*codes[::2])
    functions = [types.FunctionType(code, {"len": len}) for code in codes]
    numbers = {id(code): i for i, code in enumerate(codes)}  # code objects of the same text are equal
    seen = []
    calls.install(lambda frame, event, arg: seen.append(numbers.get(id(frame.f_code))))
    try:
        for f in functions:
            f()
    finally:
        sys.setprofile(None)
    assert [n for n in seen if n is not None] == [n for n in range(1, 5000, 2) for _ in range(2)]


def test_an_error_of_the_function_reaches_the_caller_and_ends_the_profile(make_filter):
    calls = make_filter()

    class Stop(BaseException):
        pass

    def refuse(frame, event, arg):
        if frame.f_code is measure.__code__:
            raise Stop

    before = sys.getrefcount(refuse)
    calls.install(refuse)
    with pytest.raises(Stop):
        call_from_unknown(measure)
    assert sys.getprofile() is None
    gc.collect()
    assert sys.getrefcount(refuse) == before
