"""The PyTorch side of whole training steps: eager mode, f32, forward, backward and optimizer.

Reads lines `MODEL STRATEGY BATCH` and answers each with the milliseconds of one step, as the example `steps` of
`reprop-models` does. Models: `rev-vit-ti|s|b`, `rev-swin-t`, `rev-mvit-b` and `rev-roberta-base` (AdamW), `rev-resnet-18`
for 32x32 images (SGD with Nesterov momentum); `networks` has them, and the strategies `stored`, `reprop` and `checkpoint`.
`PEER_THREADS` sets the threads. A line `memory MODEL STRATEGY BATCH` is answered by the peak of activation bytes of a
step, the depth and the side of images, or the tokens of a sequence; `version` by the framework's.

`steps.py check [FILE]` compares gradients of all strategies, small networks with the reference values of `oracle`, and
numbers of parameters with FILE, made by `reprop models --format json`.
"""

import json
import os
import sys
import time

import torch

from training import Training


def answer(words, known):
    if words == ["version"]:
        return f"PyTorch {torch.__version__.split('+')[0]}"
    asks_memory = words[0] == "memory"
    model, strategy, batch = words[asks_memory:]
    if (model, batch) not in known:
        known[model, batch] = Training(model, int(batch))
    training = known[model, batch]
    if asks_memory:
        return json.dumps(training.memory(strategy))
    start = time.perf_counter()
    training.step(strategy)
    return f"{(time.perf_counter() - start) * 1e3:.3f}"


def main():
    torch.set_num_threads(int(os.environ.get("PEER_THREADS", "2")))
    if sys.argv[1:2] == ["check"]:
        from check import check

        return check(*sys.argv[2:])
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", file=sys.stderr)
    known = {}
    for line in sys.stdin:
        print(answer(line.split(), known), flush=True)


if __name__ == "__main__":
    main()
