"""The generator of random ops, in NumPy: that of csrc/include/myops/random.h."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)


class Philox:
    """Random numbers without state: the number of an element follows from seed and place alone.

    It is Philox4x32-10 (Salmon et al., SC 2011), the generator that kernels in C++ get from
    `myops/random.h`, with equal bits: for prototypes of random ops, and for references in tests.

    Args:
        seed: Any integer; 64 bits of it count.
        stream: Generators of equal seeds and different streams have nothing in common.

    Raises:
        TypeError: The seed or the stream is not an integer.

    Example:
        >>> random = myops.Philox(7)
        >>> random.uniform(3)
        array([0.9545971 , 0.7501522 , 0.11417735], dtype=float32)
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._seed = _whole("seed", seed) % 2**64
        self._stream = _whole("stream", stream) % 2**64

    def bits(self, index: Any) -> np.ndarray:
        """32 random bits for each element, uint32.

        Args:
            index: How many elements, or their places, an array of integers.

        Example:
            >>> myops.Philox(7).bits(2)
            array([...], dtype=uint32)
        """
        places = _places(index)
        blocks = self._blocks(places // np.uint64(4))
        return np.take_along_axis(blocks, (places % np.uint64(4))[..., None].astype(np.int64), -1)[
            ..., 0
        ]

    def uniform(self, index: Any) -> np.ndarray:
        """Numbers from 0 on and below 1, float32, multiples of 2^-24; `index` as in `bits`.

        Example:
            >>> myops.Philox(7).uniform(np.array([[5, 1]])).shape
            (1, 2)
        """
        return (self.bits(index) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)

    def uniform_double(self, index: Any) -> np.ndarray:
        """The same as float64, multiples of 2^-53.

        Example:
            >>> myops.Philox(7).uniform_double(4).dtype
            dtype('float64')
        """
        places = _places(index)
        blocks = self._blocks(places // np.uint64(2)).astype(np.uint64)
        odd = (places % np.uint64(2)).astype(bool)
        high = np.where(odd, blocks[..., 2], blocks[..., 0]) >> np.uint64(5)
        low = np.where(odd, blocks[..., 3], blocks[..., 1]) >> np.uint64(6)
        return (high << np.uint64(26) | low).astype(np.float64) * 2.0**-53

    def normal(self, index: Any) -> np.ndarray:
        """Numbers of the normal distribution with mean 0 and variance 1, float64.

        The last bits may differ from those of C++, whose logarithm is another.

        Example:
            >>> abs(myops.Philox(7).normal(10000).mean()) < 0.05
            np.True_
        """
        places = _places(index) * np.uint64(2)
        radius = np.sqrt(-2 * np.log(1 - self.uniform_double(places)))
        return radius * np.cos(2 * np.pi * self.uniform_double(places + np.uint64(1)))

    def _blocks(self, index: np.ndarray) -> np.ndarray:
        """Four numbers of 32 bits for each index, on a last axis."""
        streams = (self._stream & 0xFFFFFFFF, self._stream >> 32)
        counter = [index & _LOW, index >> _HALF]
        counter += [np.full(index.shape, item, np.uint64) for item in streams]
        keys = [self._seed & 0xFFFFFFFF, self._seed >> 32]
        return philox4x32(counter, keys)


def philox4x32(counter: Any, keys: Any) -> np.ndarray:
    """Ten rounds on four counters and two keys of 32 bits each."""
    a, b, c, d = (np.asarray(item, np.uint64) for item in counter)
    low, high = (int(key) for key in keys)
    for _ in range(10):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b, c, d = (
            (second >> _HALF) ^ b ^ np.uint64(low),
            second & _LOW,
            (first >> _HALF) ^ d ^ np.uint64(high),
            first & _LOW,
        )
        low, high = (low + _STEPS[0]) % 2**32, (high + _STEPS[1]) % 2**32
    return np.stack([a, b, c, d], -1).astype(np.uint32)


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except (TypeError, RuntimeError, NotImplementedError):  # the last two from tensors
        raise TypeError(f"Philox: {name}: got {value!r}, expected an integer") from None


def _places(index: Any) -> np.ndarray:
    if isinstance(index, (int, np.integer)):
        return np.arange(int(index), dtype=np.uint64)
    return np.asarray(index).astype(np.uint64)
