"""Our schedules in checkpoint_schedules' protocol, replayed by a reading of that protocol of our own."""

import pytest

theirs = pytest.importorskip("checkpoint_schedules", reason="checkpoint_schedules is not installed")

from reprop import adjoint  # noqa: E402


def reversed_by(schedule, steps, limits):
    """Runs a schedule on sets of steps; returns how many forward steps it took."""
    RAM, DISK, WORK = theirs.StorageType.RAM, theirs.StorageType.DISK, theirs.StorageType.WORK
    kept, at, back, recorded, evaluations, ended = {RAM: {}, DISK: {}}, 0, 0, None, 0, []
    for action in schedule:
        match action:
            case theirs.Forward():
                assert at == action.n0 < action.n1 <= steps - back
                evaluations += action.n1 - action.n0
                at = action.n1
                if action.write_adj_deps:
                    assert action.n1 == action.n0 + 1
                if action.storage in kept:
                    assert action.n0 not in kept[action.storage]
                    kept[action.storage][action.n0] = "state" if action.write_ics else "tape"
                elif action.write_adj_deps:
                    recorded = action.n0
            case theirs.Copy() | theirs.Move():
                place = kept[action.from_storage]
                what = place[action.n] if type(action) is theirs.Copy else place.pop(action.n)
                if action.to_storage == WORK:
                    at, recorded = (action.n, None) if what == "state" else (None, action.n)
                elif action.to_storage in kept:
                    assert action.n not in kept[action.to_storage]
                    kept[action.to_storage][action.n] = what
            case theirs.Reverse():
                assert action.n1 == steps - back and action.n0 == action.n1 - 1 == recorded
                back, recorded = back + 1, None
            case theirs.EndForward() | theirs.EndReverse():
                ended.append(type(action))
        for storage, limit in limits.items():
            assert len(kept[theirs.StorageType[storage]]) <= limit
        assert schedule.r == back
        if ended[-1:] == [theirs.EndReverse]:
            break
    assert back == steps and ended == [theirs.EndForward, theirs.EndReverse] and schedule.is_exhausted
    assert kept == {RAM: {}, DISK: {}}
    return evaluations


@pytest.mark.parametrize("steps, slots", [(1, 1), (2, 1), (9, 2), (60, 4), (200, 7)])
def test_every_schedule_is_valid_in_their_protocol(steps, slots):
    for schedule, disk in [
        (adjoint.Revolve(steps, slots), 0),
        (adjoint.MultistageCheckpointSchedule(steps, slots, 3), 3),
        (adjoint.HRevolve(steps, slots, 4), 4),
        (adjoint.DiskRevolve(steps, slots), steps),
        (adjoint.PeriodicDiskRevolve(steps, slots), steps),
        (adjoint.MixedCheckpointSchedule(steps, slots, storage=theirs.StorageType.RAM), 0),
        (adjoint.Async(steps, slots), steps),
    ]:
        assert reversed_by(schedule, steps, {"RAM": slots, "DISK": disk}) >= steps


@pytest.mark.parametrize("steps, slots", [(10, 3), (100, 10), (50, 1)])
def test_ours_takes_no_more_forward_steps_than_theirs(steps, slots):
    limits = {"RAM": slots, "DISK": steps}
    counted = [reversed_by(package.Revolve(steps, slots), steps, limits) for package in (adjoint, theirs)]
    assert counted[0] <= counted[1]
