"""Chains of arrays with an adjoint of one's own."""

import numpy as np
import pytest

import reprop

METHODS = reprop.METHODS
STEPS = 37


def options(method, folder, slots=4):
    # A disk as quick as a step, so that it is used.
    return dict(strategy=method, slots=slots, store=folder, costs=(1.0, 2.0, 1.0, 1.0))


class Problem:
    """A nonlinear recurrence on two arrays, with inputs, and its adjoint by hand."""

    def __init__(self, steps=STEPS):
        rng = np.random.default_rng(7)
        self.matrix = rng.normal(size=(5, 5)) / 3
        self.state = {"x": rng.normal(size=5), "total": np.zeros(())}
        self.inputs = rng.normal(size=(steps, 5))
        self.matrix_gradient = np.zeros_like(self.matrix)

    def step(self, state, given):
        return {"x": np.tanh(self.matrix @ state["x"] + given), "total": state["total"] + (state["x"] ** 2).sum()}

    def adjoint(self, state, given, gradient):
        y = np.tanh(self.matrix @ state["x"] + given)
        inside = gradient["x"] * (1 - y * y)
        self.matrix_gradient += np.outer(inside, state["x"])
        by_state = {"x": self.matrix.T @ inside + 2 * gradient["total"] * state["x"], "total": gradient["total"]}
        return by_state, inside

    def plain(self):
        """Every state kept in a list: the same arithmetic with no schedule."""
        states = [self.state]
        for given in self.inputs:
            states.append(self.step(states[-1], given))
        gradient, inputs = {"x": np.ones(5), "total": np.array(1.0)}, []
        for state, given in zip(states[-2::-1], self.inputs[::-1]):
            gradient, by_input = self.adjoint(state, given, gradient)
            inputs.append(by_input)
        return states[-1], gradient, inputs[::-1]


def run(problem, **options):
    run = reprop.checkpointed(problem.step, problem.state, problem.inputs, adjoint=problem.adjoint, **options)
    gradient, inputs = run.backward({"x": np.ones(5), "total": np.array(1.0)})
    return run, gradient, inputs


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_bits_of_a_plain_loop(method, tmp_path):
    plain, problem = Problem(), Problem()
    last, gradient, inputs = plain.plain()
    done, found, found_inputs = run(problem, **options(method, tmp_path))
    assert (done.state["x"] == last["x"]).all() and done.state["total"] == last["total"]
    assert (found["x"] == gradient["x"]).all() and found["total"] == gradient["total"]
    assert all((a == b).all() for a, b in zip(found_inputs, inputs, strict=True))
    assert (problem.matrix_gradient == plain.matrix_gradient).all()
    plan = reprop.schedule(method, steps=STEPS, slots=4, disk_slots=STEPS, write=1.0, backward=2.0)
    assert done.report.forward_evaluations == plan.forward_evaluations
    assert (done.report.disk_writes, done.report.disk_reads) == (plan.disk_writes, plan.disk_reads)
    assert list(tmp_path.iterdir()) == []


def test_the_gradient_is_that_of_finite_differences():
    problem = Problem()
    _, gradient, _ = run(problem, slots=3)

    def loss(x):
        state = {"x": x, "total": np.zeros(())}
        for given in problem.inputs:
            state = problem.step(state, given)
        return state["x"].sum() + state["total"]

    for k in range(5):
        shift = np.zeros(5)
        shift[k] = 1e-6
        difference = (loss(problem.state["x"] + shift) - loss(problem.state["x"] - shift)) / 2e-6
        # Central differences in double precision: truncation 1e-12, rounding 1e-16 * loss / 1e-6.
        assert abs(difference - gradient["x"][k]) < 1e-7


@pytest.mark.parametrize("method", ["revolve", "online", "mixed", "stored"])
def test_evaluations_are_those_the_schedule_promised(method):
    done, _, _ = run(Problem(), strategy=method, slots=4)
    assert done.report.forward_evaluations == reprop.schedule(method, steps=STEPS, slots=4).forward_evaluations


def test_a_step_may_work_in_place(tmp_path):
    def step(x, i):
        x *= 1.01
        x += i
        return x

    for method in METHODS:
        start = np.ones(3)
        done = reprop.checkpointed(step, start, 30, adjoint=lambda x, i, g: 1.01 * g, **options(method, tmp_path))
        gradient, inputs = done.backward(np.ones(3))
        expected, last = 1.0, np.ones(3)
        for i in range(30):
            expected, last = 1.01 * expected, 1.01 * last + i
        assert inputs is None and (gradient == expected).all() and (done.state == last).all()
        assert (start == 1).all()


def test_the_number_of_slots_follows_from_the_memory():
    state = np.zeros(1000)  # 8000 bytes; two states and one step's tape beside the slots
    done = reprop.checkpointed(lambda x, i: x + 1, state, 50, adjoint=lambda x, i, g: g, memory="80kB")
    assert done.report.slots == 7
    done.backward(state)
    assert done.report.peak_slots <= 7


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(), "needs a bound"),
        (dict(strategy="best", slots=1), "unknown strategy 'best'"),
        (dict(strategy="async", slots=1), "give a folder"),
        (dict(memory="100B"), "it needs 32000"),
        (dict(memory="40kB", slots=90), "90 slots need 744000 bytes"),
        (dict(memory="a lot"), "not a size"),
    ],
)
def test_what_cannot_run_says_why(wrong, message):
    with pytest.raises(ValueError, match=message):
        reprop.checkpointed(lambda x, i: x, np.zeros(1000), 50, adjoint=lambda x, i, g: g, **wrong)


@pytest.mark.parametrize("method", ["disk-revolve", "async"])
def test_without_costs_they_are_measured(method, tmp_path):
    plain, problem = Problem(), Problem()
    _, gradient, _ = plain.plain()
    _, found, _ = run(problem, strategy=method, slots=4, store=tmp_path)
    assert (found["x"] == gradient["x"]).all() and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_longer_chain_streams_its_asynchronous_plan(slots, tmp_path):
    plain, problem = Problem(300), Problem(300)
    _, gradient, _ = plain.plain()
    done, found, _ = run(problem, **options("async", tmp_path, slots))
    assert (found["x"] == gradient["x"]).all() and list(tmp_path.iterdir()) == []
    revolve = reprop.schedule("revolve", steps=300, slots=slots)
    assert done.report.disk_reads > 0 and done.report.forward_evaluations < revolve.forward_evaluations
    assert done.report.peak_slots <= slots


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "auto"])
def test_codecs_give_the_same_bits(codec, tmp_path):
    plain, problem = Problem(), Problem()
    _, gradient, _ = plain.plain()
    done, found, _ = run(problem, codec=codec, **options("async", tmp_path))
    assert (found["x"] == gradient["x"]).all() and done.report.disk_reads > 0


def test_a_state_that_changes_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        reprop.checkpointed(lambda x, i: np.zeros(4), np.zeros(3), 9, adjoint=lambda x, i, g: g, slots=3)


def test_keys_may_come_in_any_order(tmp_path):
    def step(state, i):
        return {"b": state["b"] + 2 * state["a"], "a": state["a"]}

    def adjoint(state, i, g):
        return {"a": g["a"] + 2 * g["b"], "b": g["b"]}

    for method in METHODS:
        state = {"a": np.array(1.0), "b": np.array(0.0)}
        done = reprop.checkpointed(step, state, 30, adjoint=adjoint, **options(method, tmp_path, 2))
        assert (done.state["a"], done.state["b"]) == (1, 60)
        gradient, _ = done.backward({"b": np.array(1.0), "a": np.array(0.0)})
        assert (gradient["a"], gradient["b"]) == (60, 1)


@pytest.mark.parametrize(
    "state, step, error",
    [
        ({"a": np.ones(2)}, lambda x, i: {"b": np.ones(2)}, ValueError),
        ((np.ones(2), np.ones(2)), lambda x, i: (x[0],), ValueError),
        (np.array([None]), lambda x, i: x, TypeError),
    ],
)
def test_a_state_of_another_kind_is_refused(state, step, error):
    with pytest.raises(error, match="a state"):
        reprop.checkpointed(step, state, 9, adjoint=lambda x, i, g: g, slots=3)


def test_an_adjoint_without_the_inputs_gradient_is_refused():
    done = reprop.checkpointed(lambda x, i: x, np.zeros(3), np.zeros(9), adjoint=lambda x, i, g: None, slots=3)
    with pytest.raises(TypeError, match="two things"):
        done.backward(np.zeros(3))


def test_going_back_twice_is_refused():
    done, _, _ = run(Problem(), slots=3)
    with pytest.raises(RuntimeError, match="reversed or closed already"):
        done.backward({"x": np.ones(5), "total": np.array(1.0)})
