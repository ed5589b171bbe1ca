# Written by scripts/make_stubs.py. What is here at run time is in __init__.py.
from typing import Any

from myops import batch as batch
from myops import build as build
from myops import nn as nn
from myops import onnx as onnx
from myops import ort as ort
from myops import testing as testing
from myops._explain import explain as explain
from myops._libraries import op_library as op_library
from myops._op_library import IntegerOp as IntegerOp
from myops._op_parts import AttributeInfo as Attribute
from myops._op_parts import InputInfo as Input
from myops._op_parts import OutputInfo as Output
from myops._op_parts import at_most as at_most
from myops._prepared import forget_prepared as forget_prepared
from myops._prototype.define import prototype as prototype
from myops._random import Philox as Philox
from myops._stubs import package_stub as package_stub
from myops._torch.interpolate import patch_interpolate as patch_interpolate
from myops._torch.torchvision import patch_torchvision as patch_torchvision
from myops.ops.deform_conv2d import deform_conv2d as deform_conv2d
from myops.ops.deform_conv2d_int8 import deform_conv2d_int8 as deform_conv2d_int8
from myops.ops.interpolate import NewInterpolate as NewInterpolate
from myops.ops.interpolate import interpolate as interpolate
from myops.ops.my_add import my_add as my_add
from myops.ops.resize import resize as resize
from myops.scaffold import new_package as new_package

__all__ = [
    "Attribute",
    "Input",
    "IntegerOp",
    "NewInterpolate",
    "Output",
    "Philox",
    "at_most",
    "batch",
    "build",
    "deform_conv2d",
    "deform_conv2d_int8",
    "explain",
    "forget_prepared",
    "interpolate",
    "my_add",
    "new_package",
    "nn",
    "onnx",
    "op_library",
    "ort",
    "package_stub",
    "patch_interpolate",
    "patch_torchvision",
    "prototype",
    "resize",
    "testing",
]

__version__: str

def _public() -> dict[str, Any]: ...
