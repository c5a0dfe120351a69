"""A small JPEG file of known pixels, by a baseline encoder of its own: no subsampling, all quantisers 1, flat Huffman codes.

    python oracle/jpeg.py     # writes crates/reprop-data/tests/files/slopes.jpeg

24 x 16 pixels: red = 8 column, green = 12 row, blue = 100. Decoders agree to a few parts of 255.
"""

import math
import pathlib
import struct

WIDTH, HEIGHT = 24, 16
ZIGZAG = sorted(range(64), key=lambda i: (i // 8 + i % 8, (i // 8 if (i // 8 + i % 8) % 2 else i % 8)))
AC = [16 * run + size for run in range(16) for size in range(1, 11)] + [0x00, 0xF0]


def colours(x, y):
    r, g, b = 8 * x, 12 * y, 100
    return (
        0.299 * r + 0.587 * g + 0.114 * b - 128,
        -0.168736 * r - 0.331264 * g + 0.5 * b,
        0.5 * r - 0.418688 * g - 0.081312 * b,
    )


def transformed(block):
    scale = lambda k: math.sqrt(0.5) if k == 0 else 1.0
    cosine = lambda n, k: math.cos((2 * n + 1) * k * math.pi / 16)
    return [
        round(
            scale(u) * scale(v) / 4
            * sum(block[y][x] * cosine(x, u) * cosine(y, v) for y in range(8) for x in range(8))
        )
        for v in range(8)
        for u in range(8)
    ]


def segment(marker, body):
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def table(kind, lengths, symbols):
    return segment(0xC4, bytes([kind] + lengths + symbols))


bits = []


def put(value, count):
    bits.extend((value >> (count - 1 - i)) & 1 for i in range(count))


def put_number(value):
    size = abs(value).bit_length()
    return size, (value if value > 0 else value + (1 << size) - 1)


before = [0, 0, 0]
for top in range(0, HEIGHT, 8):
    for left in range(0, WIDTH, 8):
        for part in range(3):
            block = [[colours(left + x, top + y)[part] for x in range(8)] for y in range(8)]
            numbers = transformed(block)
            numbers = [numbers[i] for i in ZIGZAG]
            size, value = put_number(numbers[0] - before[part])
            before[part] = numbers[0]
            put(size, 4)
            put(value, size)
            run = 0
            last = max([i for i in range(1, 64) if numbers[i]], default=0)
            for number in numbers[1 : last + 1]:
                if number == 0:
                    run += 1
                    continue
                while run > 15:
                    put(AC.index(0xF0), 8)
                    run -= 16
                size, value = put_number(number)
                put(AC.index(16 * run + size), 8)
                put(value, size)
                run = 0
            if last < 63:
                put(AC.index(0), 8)
bits += [1] * (-len(bits) % 8)
scan = bytes(int("".join(map(str, bits[i : i + 8])), 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")

parts = b"".join(bytes([part, 0x11, 0]) for part in (1, 2, 3))
file = b"\xff\xd8"
file += segment(0xE0, b"JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")
file += segment(0xDB, bytes([0] + [1] * 64))
file += segment(0xC0, struct.pack(">BHHB", 8, HEIGHT, WIDTH, 3) + parts)
file += table(0x00, [0, 0, 0, 12] + [0] * 12, list(range(12)))
file += table(0x10, [0] * 7 + [len(AC)] + [0] * 8, AC)
file += segment(0xDA, bytes([3, 1, 0, 2, 0, 3, 0, 0, 63, 0])) + scan + b"\xff\xd9"
folder = pathlib.Path(__file__).parent.parent / "crates/reprop-data/tests/files"
(folder / "slopes.jpeg").write_bytes(file)
