"""Writes the digits data set, as scikit-learn ships it, as the bytes that `reprop-data` embeds.

    python oracle/digits.py crates/reprop-data/data/digits.bin

One sample is 65 bytes: its label (0 to 9), then 8 rows of 8 pixels (0 to 16). Samples keep scikit-learn's order.
The printed CRC-32 is the one that the crate's test expects.
"""

import sys
import zlib
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import load_digits

CRC = 0x16BB1288


def main() -> None:
    digits = load_digits()
    images, labels = digits.images, digits.target
    assert images.shape == (1797, 8, 8) and labels.shape == (1797,)
    assert (images == images.astype(np.uint8)).all() and images.min() == 0 and images.max() == 16
    assert set(labels) == set(range(10))

    samples = np.concatenate([labels[:, None], images.reshape(1797, 64)], axis=1).astype(np.uint8)
    data = samples.tobytes()
    assert len(data) == 1797 * 65
    crc = zlib.crc32(data)
    print(f"scikit-learn {sklearn.__version__}: {len(data)} bytes, CRC-32 {crc:#010x}")
    assert crc == CRC, f"the data set changed: its CRC-32 was {CRC:#010x}"
    Path(sys.argv[1]).write_bytes(data)


if __name__ == "__main__":
    main()
