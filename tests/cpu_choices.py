"""What deform_conv2d chooses by the CPU, beside the instruction set; csrc/core/isa.cpp decides."""

from __future__ import annotations

import os
from pathlib import Path

from myops import _numpy

VARIABLE = "MYOPS_BFLOAT16_PRODUCTS"
_CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
CAN_PAIR = "avx512_bf16" in _CPU and "avx512" in _numpy.instruction_sets()


def pairs(isa: str, wanted: str = "") -> bool:
    """Whether it multiplies pairs of bfloat16: under an instruction set, with a value of the
    variable."""
    pays = "AuthenticAMD" in _CPU
    return isa == "avx512" and CAN_PAIR and (wanted == "1" if wanted else pays)


PAIRS = pairs(_numpy.instruction_set(), os.environ.get(VARIABLE, ""))
# Whether it gathers pairs of pixels, and then takes planes_product for more channels.
GATHERS = _numpy.instruction_set() == "avx512" and "avx512_fp16" in _CPU
