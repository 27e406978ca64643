"""Schedules of pipelines without ranks: every order can be carried out, and keeps few graphs alive."""

from __future__ import annotations

import pytest

from ndgrad.distributed.pipelining.schedules import (
    Action,
    get_schedule_class,
    gpipe,
    interleaved,
    one_forward_one_backward,
    zero_bubble,
)


def _carry_out(orders, stages):
    """Run the ranks' lists of actions as far as dependencies let them; what is left, and the time in ticks."""
    done, left, ticks = set(), [list(order) for order in orders], 0
    while any(left):
        ready = []
        for order in left:
            if order:
                kind, stage, number = order[0]
                if kind == "F":
                    needs = [Action("F", stage - 1, number)] if stage else []
                elif kind == "W":
                    needs = [Action("I", stage, number)]
                else:
                    after = [Action(kind, stage + 1, number)] if stage + 1 < stages else []
                    needs = [Action("F", stage, number), *after]
                if all(need in done for need in needs):
                    ready.append(order)
        if not ready:
            return left, ticks
        done.update(order.pop(0) for order in ready)
        ticks += 1
    return left, ticks


def _most_alive(order):
    alive = most = 0
    for action in order:
        alive += 1 if action.kind == "F" else -1
        most = max(most, alive)
    return most


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16])
def test_every_order_can_be_carried_out(ranks, count):
    for order, per_rank in ((gpipe, 1), (gpipe, 3), (one_forward_one_backward, 1), (interleaved, 2), (interleaved, 3)):
        orders = [order(rank, ranks, per_rank, count) for rank in range(ranks)]
        for rank, actions in enumerate(orders):
            want = {Action(k, rank + i * ranks, m) for k in "FB" for i in range(per_rank) for m in range(count)}
            assert len(actions) == len(want)
            assert set(actions) == want
        left, _ = _carry_out(orders, ranks * per_rank)
        assert not any(left), (order.__name__, left)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_1f1b_keeps_as_many_graphs_as_there_are_stages_to_the_end(ranks):
    for rank in range(ranks):
        assert _most_alive(one_forward_one_backward(rank, ranks, 1, 16)) == ranks - rank
        assert _most_alive(gpipe(rank, ranks, 1, 16)) == 16


@pytest.mark.parametrize("ranks", [2, 4])
def test_interleaving_shortens_the_wait(ranks):
    """In ticks of one stage's pass, of which a rank with two stages of half the size does twice as many: the time in
    which ranks wait is 2 (ranks - 1) of the larger ticks, or of the smaller ones."""
    _, plain = _carry_out([one_forward_one_backward(r, ranks, 1, 2 * ranks) for r in range(ranks)], ranks)
    _, fine = _carry_out([interleaved(r, ranks, 2, 2 * ranks) for r in range(ranks)], 2 * ranks)
    work = 2 * 2 * ranks
    assert plain - work == 2 * (ranks - 1)
    assert fine / 2 - work < plain - work


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_divided_backward_passes_can_be_carried_out_and_fill_the_wait(ranks, count):
    orders = [zero_bubble(rank, ranks, 2, count) for rank in range(ranks)]
    for rank, actions in enumerate(orders):
        assert set(actions) == {Action(k, rank + i * ranks, m) for k in "FIW" for i in range(2) for m in range(count)}
    left, ticks = _carry_out(orders, 2 * ranks)
    assert not any(left)
    # A whole backward pass takes two ticks, and the next rank waits for both of them.
    whole = [[a for x in interleaved(r, ranks, 2, count) for a in ([x] if x.kind == "F" else [x, x])] for r in range(ranks)]
    assert ticks <= _ticks_of_doubled(whole, 2 * ranks)


def _ticks_of_doubled(orders, stages):
    """The time of orders whose backward passes take two ticks each."""
    done, left, ticks = {}, [list(order) for order in orders], 0
    while any(left):
        ticks += 1
        for order in left:
            if order:
                kind, stage, number = action = order[0]
                if kind == "F":
                    needs = [(Action("F", stage - 1, number), 1)] if stage else []
                else:
                    needs = [(Action("F", stage, number), 1), *([(Action("B", stage + 1, number), 2)] if stage + 1 < stages else [])]
                if all(done.get(need, []) and len(done[need]) >= times and max(done[need]) < ticks for need, times in needs):
                    done.setdefault(action, []).append(ticks)
                    order.pop(0)
    return ticks


def test_schedules_are_found_by_name():
    for name in ("1F1B", "GPipe", "Interleaved1F1B", "loopedbfs", "ScheduleInterleavedZeroBubble"):
        found = get_schedule_class(name)
        assert found.__name__.lower().endswith(name.lower())
    with pytest.raises(ValueError, match="Unknown schedule name 'none'"):
        get_schedule_class("none")
