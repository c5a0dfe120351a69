"""Schedules through the Python door."""

import pytest

import reprop
from reprop import Action, Slot


@pytest.mark.parametrize("steps, slots, advances, snapshots", [(10, 3, 15, 6), (100, 10, 222, 55), (1000, 10, 3636, 714)])
def test_revolve_has_the_published_counts(steps, slots, advances, snapshots):
    plan = reprop.schedule("revolve", steps=steps, slots=slots)
    assert (plan.advances, plan.snapshots_written) == (advances, snapshots)
    assert plan.forward_evaluations == advances + steps
    actions = list(plan)
    assert sum(a.stop - a.start for a in actions if isinstance(a, Action.Forward)) == advances
    assert sum(isinstance(a, Action.Save) for a in actions) == snapshots


def replayed(method, steps, slots):
    """Obeys every action on integers and says how often each step was reversed."""
    working, places, reversed_steps = 0, {}, []
    for action in reprop.schedule(method, steps=steps, slots=slots, disk_slots=steps, write=3.0):
        match action:
            case Action.Forward(start, stop):
                assert working == start < stop
                working = stop
            case Action.Save(step, slot):
                assert working == step and slot not in places
                places[slot] = step
            case Action.Load(step, slot, keep):
                assert places[slot] == step
                working = step
                if not keep:
                    del places[slot]
            case Action.Copy(step, source, target, keep):
                assert places[source] == step and target not in places
                places[target] = step
                if not keep:
                    del places[source]
            case Action.Free(step, slot):
                assert places.pop(slot) == step
            case Action.Wait(step, slot):
                assert places[slot] == step
            case Action.Record(step, slot):
                assert working == step
                places[slot] = ("tape", step)
                working = step + 1
            case Action.Reverse(step):
                assert working == step
                reversed_steps.append(step)
            case Action.ReverseRecorded(step, slot):
                assert places.pop(slot) == ("tape", step)
                reversed_steps.append(step)
            case other:
                pytest.fail(f"unknown action {other!r}")
        if method != "stored":
            assert sum(slot.tier == 0 for slot in places) <= slots
    assert places == {}
    return reversed_steps


@pytest.mark.parametrize("method", reprop.METHODS)
@pytest.mark.parametrize("steps, slots", [(1, 1), (2, 1), (13, 2), (60, 5)])
def test_every_method_reverses_each_step_once_from_the_last(method, steps, slots):
    assert replayed(method, steps, slots) == list(range(steps))[::-1]


def test_actions_compare_print_and_come_apart():
    save = Action.Save(4, Slot(1, 2))
    assert save == Action.Save(step=4, slot=Slot(tier=1, index=2)) and save != Action.Save(4, Slot(1, 3))
    assert len({save, Action.Save(4, Slot(1, 2))}) == 1
    assert str(save) == "save x4 in disk 2"
    assert repr(save) == "Save(step=4, slot=Slot(tier=1, index=2))"
    assert isinstance(save, Action) and (save.step, save.slot.tier, save.slot.index) == (4, 1, 2)
    with pytest.raises(AttributeError):
        save.step = 3


def test_a_schedule_can_be_iterated_again():
    plan = reprop.schedule("async", steps=40, slots=3, write=2.0)
    assert list(plan) == list(plan)


def test_async_lies_between_its_bound_and_waiting():
    plan = reprop.schedule("async", steps=200, slots=5, write=5)
    waiting = reprop.schedule("disk-revolve", steps=200, slots=5, write=5)
    assert plan.lower_bound <= plan.makespan < waiting.makespan


def test_pictures():
    plan = reprop.schedule("revolve", steps=10, slots=3)
    assert plan.draw().startswith("<svg") and plan.draw() == plan._repr_svg_()
    assert "makespan 25" in plan.draw("text")
    with pytest.raises(reprop.ScheduleError, match="choose svg or text"):
        plan.draw("png")
    assert reprop.schedule("revolve", steps=10**6, slots=30)._repr_svg_() is None


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(method="best", steps=3), "unknown method `best`"),
        (dict(method="revolve", steps=0, slots=1), "0 steps"),
        (dict(method="revolve", steps=3, slots=0), "0 slots"),
        (dict(method="revolve", steps=3), r"slots=\)"),
        (dict(method="async", steps=3, slots=1), r"write=\)"),
        (dict(method="async", steps=3, slots=1, write=-1.0), "write cost is -1"),
    ],
)
def test_what_cannot_be_planned_is_a_value_error_with_the_numbers(arguments, message):
    with pytest.raises(reprop.ScheduleError, match=message) as caught:
        reprop.schedule(arguments.pop("method"), **arguments).makespan
    assert isinstance(caught.value, ValueError)


def test_a_million_steps_stream():
    count = sum(1 for _ in reprop.schedule("revolve", steps=100_000, slots=200))
    assert count > 200_000
