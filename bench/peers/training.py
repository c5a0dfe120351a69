"""One network with its optimizer and a batch, and what is asked of it."""

import torch

from networks import NETWORKS, STRATEGIES


class Training:
    """One network serves all strategies: the largest have gigabytes of weights and moments."""

    def __init__(self, model, batch):
        torch.manual_seed(1)
        self.network = NETWORKS[model]()
        self.optimizer = self.network.optimizer()
        self.batch = self.network.batch(batch)

    def step(self, strategy, keep_gradients=False):
        if strategy not in STRATEGIES:
            raise ValueError(f"no strategy is called {strategy}: choose one of {', '.join(STRATEGIES)}")
        self.network.body.strategy = strategy
        self.optimizer.zero_grad(set_to_none=not keep_gradients)
        self.network.loss(*self.batch).backward()
        self.optimizer.step()

    def memory(self, strategy):
        """The most bytes that lived at once in a step beside parameters, their gradients and the optimizer's state.

        PyTorch's profiler sees every allocation. Gradients are there before the step and only added to, so that what comes
        and goes are activations, what the backward pass makes of them, and temporaries.
        """
        self.step(strategy)
        self.step(strategy, keep_gradients=True)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            self.step(strategy, keep_gradients=True)
        events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
        live = peak = 0
        for event in sorted(events, key=lambda event: event.start_ns()):
            live += event.nbytes()
            peak = max(peak, live)
        return {"bytes": peak, "depth": len(self.network.body.blocks), **self.network.sizes()}
