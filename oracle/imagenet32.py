"""Files as ImageNet32's batches are published: pickles of a dictionary with an array of bytes and a list of labels from 1.

    python oracle/imagenet32.py     # writes crates/reprop-data/tests/files/imagenet32-protocol-{2,4}

Made with Python 3 and numpy 2.4; protocol 2 is what older programs write.
"""

import pathlib
import pickle

import numpy

IMAGES, IMAGE = 3, 3 * 32 * 32

data = (numpy.arange(IMAGES * IMAGE) * 7 % 251).astype(numpy.uint8).reshape(IMAGES, IMAGE)
batch = {"data": data, "labels": [1, 1000, 42], "mean": data.mean(axis=0)[:2]}
folder = pathlib.Path(__file__).parent.parent / "crates/reprop-data/tests/files"
folder.mkdir(parents=True, exist_ok=True)
for protocol in (2, 4):
    (folder / f"imagenet32-protocol-{protocol}").write_bytes(pickle.dumps(batch, protocol))
