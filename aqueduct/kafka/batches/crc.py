"""CRC-32C, the checksum of batches."""

try:
    import google_crc32c
    import numpy as np
except ModuleNotFoundError:  # a host that reads only small tables: 10 MB/s do
    _POLYNOMIAL = 0x82F63B78
    _TABLE = list(range(256))
    for _ in range(8):
        _TABLE = [entry >> 1 ^ (_POLYNOMIAL if entry & 1 else 0) for entry in _TABLE]

    def crc32c(buffer: memoryview) -> int:
        """Return the checksum."""
        crc = 0xFFFFFFFF
        for byte in buffer:
            crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ 0xFFFFFFFF

else:
    _CACHED = 64 << 10

    def crc32c(buffer: memoryview) -> int:
        """Return the checksum.

        google-crc32c takes no memoryview. A copy is the fastest for what fits into the processor's cache.
        """
        crc: int = google_crc32c.value(
            buffer.tobytes() if len(buffer) <= _CACHED else np.frombuffer(buffer, np.uint8)
        )
        return crc
