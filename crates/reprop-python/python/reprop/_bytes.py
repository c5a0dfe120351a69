"""Numbers of bytes as people write them."""

import re

UNITS = {"": 1, "b": 1}
for power, letter in enumerate("kmgt", start=1):
    UNITS[letter + "b"] = 1000**power
    UNITS[letter + "ib"] = 1024**power


def parse(size: int | str) -> int:
    """A number of bytes from a number or from a number with a unit.

    >>> parse("2GiB"), parse("1.5 kB"), parse(7)
    (2147483648, 1500, 7)
    >>> parse("many")
    Traceback (most recent call last):
        ...
    ValueError: 'many' is not a size: write 1048576, "1MiB" or "2.5 GB"
    """
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*)\s*", size.lower())
    if match is None or match[2] not in UNITS:
        raise ValueError(f'{size!r} is not a size: write 1048576, "1MiB" or "2.5 GB"')
    return int(float(match[1]) * UNITS[match[2]])
