"""Chains of tensors as a node of the autograd graph."""

import pytest

import reprop

pytestmark = pytest.mark.torch
STEPS, BATCH, WIDTH = 23, 3, 6
# A disk as quick as a step, so that it is used.
COSTS = (1.0, 2.0, 1.0, 1.0)


def torch():
    import torch

    torch.set_num_threads(1)
    return torch


def lstm():
    """A cell whose state carries the loss, and inputs that want gradients."""
    t = torch()
    t.manual_seed(3)

    class Cell(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = t.nn.LSTMCell(WIDTH, WIDTH), t.nn.Linear(WIDTH, 1)

        def forward(self, state, given):
            h, c, loss = state
            h, c = self.cell(given, (h, c))
            return h, c, loss + self.out(h).square().mean()

    state = (t.randn(BATCH, WIDTH, requires_grad=True), t.randn(BATCH, WIDTH, requires_grad=True), t.zeros(()))
    return Cell(), state, t.randn(STEPS, BATCH, WIDTH, requires_grad=True)


def gradients(cell, state, inputs, run):
    """The last state, and every gradient of a loss that all of it is in."""
    t = torch()
    wanted = [*state[:2], inputs, *cell.parameters()]
    h, c, loss = run(cell, state, inputs)
    return [h, c, loss], t.autograd.grad(loss + h.sum() + (c * c).sum(), wanted)


def plain(step, state, inputs):
    for i in range(len(inputs)):
        state = step(state, inputs[i])
    return state


def same(one, other):
    return len(one) == len(other) and all(torch().equal(a, b) for a, b in zip(one, other))


@pytest.mark.parametrize("method", reprop.METHODS)
@pytest.mark.parametrize("slots", [1, 4])
def test_an_lstm_has_the_bits_of_plain_autograd(method, slots, tmp_path):
    cell, state, inputs = lstm()
    expected = gradients(cell, state, inputs, plain)

    reports = []

    def run(step, state, inputs):
        return reprop.checkpointed(
            step, state, inputs, strategy=method, slots=slots, store=tmp_path, costs=COSTS, on_report=reports.append
        )

    found = gradients(cell, state, inputs, run)
    plan = reprop.schedule(method, steps=STEPS, slots=slots, disk_slots=STEPS, write=1.0, backward=2.0)
    assert reports[0].forward_evaluations == plan.forward_evaluations
    assert (reports[0].disk_writes, reports[0].disk_reads) == (plan.disk_writes, plan.disk_reads)
    assert same(found[0], expected[0]) and same(found[1], expected[1])
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_used_twice_in_a_step_is_summed_in_autograds_order():
    t = torch()
    t.manual_seed(1)
    weight, state = t.randn(40, 40, requires_grad=True), t.randn(9, 40, requires_grad=True)

    def step(x, i):
        return t.tanh(t.tanh(x @ weight * 0.3) @ weight.t() * 0.3 + x)

    def run(step, state, steps):
        return reprop.checkpointed(step, state, steps, slots=3)

    grads = [
        t.autograd.grad(f(step, state, 31 if f is run else range(31)).sum(), [weight, state]) for f in (plain, run)
    ]
    assert same(*grads)


def test_backward_fills_the_gradients_of_leaves():
    cell, state, inputs = lstm()
    reprop.checkpointed(cell, state, inputs, slots=3)[2].backward()
    found = [leaf.grad.clone() for leaf in [*state[:2], inputs, *cell.parameters()]]
    for leaf in [*state[:2], inputs, *cell.parameters()]:
        leaf.grad = None
    plain(cell, state, inputs)[2].backward()
    assert same(found, [leaf.grad for leaf in [*state[:2], inputs, *cell.parameters()]])


def test_inputs_may_be_a_sequence_of_trees():
    cell, state, inputs = lstm()
    items = [{"x": inputs[i].detach().requires_grad_()} for i in range(STEPS)]

    def step(state, given):
        return cell(state, given["x"])

    expected = torch().autograd.grad(plain(step, state, items)[2], [item["x"] for item in items])
    found = torch().autograd.grad(
        reprop.checkpointed(step, state, items, slots=3)[2], [item["x"] for item in items]
    )
    assert same(found, expected)


@pytest.mark.parametrize("method", reprop.METHODS)
def test_dropout_is_replayed_and_the_generator_goes_on_as_after_plain(method, tmp_path):
    t = torch()
    cell, state, inputs = lstm()

    def step(state, given):
        return cell(state, t.nn.functional.dropout(given, 0.4))

    def run(step, state, inputs):
        return reprop.checkpointed(step, state, inputs, strategy=method, slots=3, store=tmp_path, costs=COSTS)

    results = []
    for f in (plain, run):
        t.manual_seed(11)
        last, grads = gradients(cell, state, inputs, lambda _, state, inputs: f(step, state, inputs))
        results.append([*last, *grads, t.rand(3)])
    assert same(*results)


@pytest.mark.parametrize("method", ["revolve", "mixed", "async"])
def test_autocast_is_replayed(method, tmp_path):
    t = torch()
    cell, state, inputs = lstm()
    linear = t.nn.Linear(WIDTH, WIDTH)
    seen = []

    def step(state, given):
        h, c, loss = state
        out = linear(h)
        seen.append(out.dtype)
        return t.tanh(out.float() + given), c, loss + out.float().sum()

    def run(step, state, inputs):
        return reprop.checkpointed(step, state, inputs, strategy=method, slots=3, store=tmp_path, costs=COSTS)

    results = []
    for f in (plain, run):
        with t.autocast("cpu", dtype=t.bfloat16, cache_enabled=False):
            loss = f(step, state, inputs)[2]
        results.append(t.autograd.grad(loss, [state[0], inputs, *linear.parameters()]))
    assert same(*results) and set(seen) == {t.bfloat16}


def test_half_precision_and_integers_travel_through_the_store(tmp_path):
    t = torch()
    state = (t.randn(4, requires_grad=True), t.zeros((), dtype=t.int64), t.ones(2, dtype=t.bfloat16))

    def step(state, i):
        x, count, half = state
        return x * 1.25 + count, count + 1, half

    x, count, half = reprop.checkpointed(step, state, 20, strategy="disk-revolve", slots=1, store=tmp_path, costs=COSTS)
    assert count == 20 and not count.requires_grad and (half == 1).all()
    (gradient,) = t.autograd.grad(x.sum(), state[0])
    assert (gradient == 1.25**20).all()


def test_captured_tensors_that_are_not_leaves_are_named():
    t = torch()
    raw = t.full((3,), 0.5, requires_grad=True)
    scale, state = raw.exp(), t.ones(3, requires_grad=True)
    last = reprop.checkpointed(lambda x, i: t.tanh(x * scale), state, 12, slots=2, params=[scale])
    found = t.autograd.grad(last.sum(), [raw, state])
    expected = t.autograd.grad(plain(lambda x, i: t.tanh(x * raw.exp()), state, range(12)).sum(), [raw, state])
    assert all(t.allclose(a, b, rtol=1e-5) for a, b in zip(found, expected))


def test_a_parameter_that_only_a_later_step_uses_is_not_lost_in_silence():
    t = torch()
    one, two, state = (t.ones(3, requires_grad=True) for _ in range(3))

    def step(x, i):
        return x * (two if i == 5 else one)

    last = reprop.checkpointed(step, state, 9, slots=2)
    with pytest.raises(RuntimeError, match=r"step 5 uses a tensor of shape \(3,\)"):
        last.sum().backward()
    found = t.autograd.grad(reprop.checkpointed(step, state, 9, slots=2, params=[one, two]).sum(), [one, two])
    assert (found[0] == 8).all() and (found[1] == 1).all()


def test_changing_parameters_or_states_in_place_is_refused():
    t = torch()
    cell, state, inputs = lstm()
    last = reprop.checkpointed(cell, state, inputs, slots=3)
    with t.no_grad():
        cell.out.weight += 1
    with pytest.raises(RuntimeError, match="changed in place between forward and backward"):
        last[2].backward()
    with pytest.raises(RuntimeError, match="the step changes its state in place"):
        reprop.checkpointed(lambda x, i: x.mul_(2.0), t.ones(3, requires_grad=True) * 1, 9, slots=2).sum().backward()


@pytest.mark.parametrize("going_back", [False, True])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_in_a_step_propagates_and_the_store_is_gone(error, going_back, tmp_path):
    t = torch()
    state, forward_is_over = t.ones(500, requires_grad=True), False

    def step(x, i):
        if i == 9 and forward_is_over == going_back:
            raise error("in the step")
        return x * 1.5

    def run():
        nonlocal forward_is_over
        last = reprop.checkpointed(step, state, 40, strategy="async", slots=2, store=tmp_path, costs=COSTS)
        forward_is_over = True
        assert list(tmp_path.iterdir()) != []
        last.sum().backward()

    with pytest.raises(error, match="in the step"):
        run()
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_is_dropped_leaves_nothing(tmp_path):
    t = torch()
    last = reprop.checkpointed(
        lambda x, i: x * 1.5, t.ones(500, requires_grad=True), 40, strategy="async", slots=2, store=tmp_path, costs=COSTS
    )
    assert list(tmp_path.iterdir()) != []
    del last
    assert list(tmp_path.iterdir()) == []


def test_going_back_twice_is_refused():
    cell, state, inputs = lstm()
    last = reprop.checkpointed(cell, state, inputs, slots=3)
    last[2].backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="already"):
        last[2].backward()


def test_without_gradients_it_is_a_loop():
    cell, state, inputs = lstm()
    with torch().no_grad():
        assert same(reprop.checkpointed(cell, state, inputs, slots=3), plain(cell, state, inputs))


def test_memory_too_small_is_told_with_numbers():
    cell, state, inputs = lstm()
    with pytest.raises(ValueError, match="a state has"):
        reprop.checkpointed(cell, state, inputs, memory="1kB")


@pytest.mark.parametrize("method", ["revolve", "async"])
def test_what_is_kept_stays_inside_the_budget(method, tmp_path):
    """Counts the bytes of all tensors alive after each step: the budget holds them, the store's own memory apart."""
    import gc

    t = torch()
    width, budget, worst = 256, 4_000_000, 0
    weight = (t.randn(width, width) / 16).requires_grad_()
    state = t.randn(32, width, requires_grad=True)

    def alive():
        storages = {}
        for thing in gc.get_objects():
            if isinstance(thing, t.Tensor):
                storages[thing.untyped_storage().data_ptr()] = thing.untyped_storage().nbytes()
        return sum(storages.values())

    before = alive()

    def step(x, i):
        nonlocal worst
        if i % 60 == 0:
            worst = max(worst, alive() - before)
        return t.tanh(x @ weight)

    reports = []
    last = reprop.checkpointed(
        step, state, 300, strategy=method, memory=budget, store=tmp_path, costs=COSTS, on_report=reports.append
    )
    last.sum().backward()
    assert 0 < worst <= budget
    assert reports[0].slots > 10 and reports[0].peak_slots <= reports[0].slots


def test_a_planned_network_has_the_bits_of_its_own_in_less_memory():
    t = torch()
    t.manual_seed(5)
    net = t.nn.Sequential(*[t.nn.Sequential(t.nn.Linear(32, 32), t.nn.Dropout(0.2), t.nn.GELU()) for _ in range(8)])
    x = t.randn(64, 32, requires_grad=True)
    times, sizes = reprop.measure(net, x)
    assert len(times) == 8 and all(backward > 0 and forward > 0 for forward, backward in times)
    assert all(state == 64 * 32 * 4 and tape >= state for state, tape in sizes)
    budget = sum(tape for _, tape in sizes) // 2
    module = reprop.planned(net, x, budget)
    assert module.plan.peak_bytes <= budget and module.plan.forward_evaluations > 8
    results = []
    for f in (net, module):
        t.manual_seed(2)
        out = f(x)
        results.append([out, *t.autograd.grad(out.square().sum(), [x, *net.parameters()])])
    assert same(*results)
