"""Which ops a custom-op library provides: its entry point is called with a table of our own.

ONNX Runtime cannot list the ops of a library, so the table of functions that it passes to
RegisterCustomOps is copied, and three functions in the copy record their arguments before they pass
the call on. This happens in a child process only.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WORD = ctypes.sizeof(ctypes.c_void_p)
# Places in the table, which only ever grows at its end; csrc/adapters/ort/abi.h has more.
_GET_MESSAGE, _CREATE_OPTIONS = 2, 10
_CREATE_DOMAIN, _ADD_OP, _ADD_DOMAIN = 26, 27, 28
_LEAST_ENTRIES, _MOST_ENTRIES = 276, 1024  # of version 17; of any to come

_P = ctypes.c_void_p
_GetApi = ctypes.CFUNCTYPE(_P, ctypes.c_uint32)
_CreateDomain = ctypes.CFUNCTYPE(_P, ctypes.c_char_p, ctypes.POINTER(_P))
_AddOp = ctypes.CFUNCTYPE(_P, _P, _P)
_AddDomain = ctypes.CFUNCTYPE(_P, _P, _P)
_Name = ctypes.CFUNCTYPE(ctypes.c_char_p, _P)
_Count = ctypes.CFUNCTYPE(ctypes.c_size_t, _P)
_Kind = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_size_t)
_Number = ctypes.CFUNCTYPE(ctypes.c_int, _P)

# ONNXTensorElementDataType, in the numbers of onnx.TensorProto.DataType up to 16.
_TYPES = (
    "any", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
    "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
    "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4",
)  # fmt: skip


# Keeps alive what libraries point to until the process ends.
_kept: list[Any] = []


class _Base(ctypes.Structure):
    _fields_ = (("get_api", _GetApi), ("get_version", _P))


def trace(path: str, log: Callable[..., None]) -> None:
    """Writes what a library does on registration to `log`.

    Events: "asks" (API version), "domain", "op", "registered" or "refused".
    """
    real = _runtime_base()
    if real is None:
        log("untraced", error="OrtGetApiBase was not found in this onnxruntime")
        return
    try:
        library = ctypes.CDLL(path, mode=getattr(os, "RTLD_NOW", 0))
        entry = library.RegisterCustomOps
    except (OSError, AttributeError) as error:
        log("unloadable", error=str(error))
        return
    table = real.get_api(17)
    copies: dict[int, Any] = {}

    def get_api(version: int) -> int | None:
        found = real.get_api(version)
        log("asks", version=version, given=bool(found))
        if not found:
            return None
        if found not in copies:
            copies[found] = _copied(found, log)
        return ctypes.addressof(copies[found])

    base = _Base(_GetApi(get_api), real.get_version)
    options = _P()
    _function(table, _CREATE_OPTIONS, ctypes.CFUNCTYPE(_P, ctypes.POINTER(_P)))(
        ctypes.byref(options)
    )
    _kept.extend([library, copies, base, base.get_api, options])
    entry.restype, entry.argtypes = _P, (_P, _P)
    status = entry(options, ctypes.addressof(base))
    if status:
        get_message = _function(table, _GET_MESSAGE, ctypes.CFUNCTYPE(ctypes.c_char_p, _P))
        log("refused", error=(get_message(status) or b"").decode(errors="replace"))
    else:
        log("registered")


def _runtime_base() -> Any:
    """The OrtApiBase of the installed onnxruntime.

    The Python module hides its own; the same release of the plain library lies beside it.
    """
    import onnxruntime

    capi = Path(onnxruntime.__file__).parent / "capi"
    for path in sorted(capi.glob("libonnxruntime.so*")):
        try:
            get_base = ctypes.CDLL(str(path)).OrtGetApiBase
        except (OSError, AttributeError):
            continue
        get_base.restype = ctypes.POINTER(_Base)
        return get_base().contents
    return None


def _copied(table: int, log: Callable[..., None]) -> Any:
    """A copy of the table in which three functions report."""
    entries = _entries(table)
    copy = (_P * entries)()
    ctypes.memmove(copy, table, entries * _WORD)
    domains: dict[int | None, str] = {}
    create_domain = _function(table, _CREATE_DOMAIN, _CreateDomain)
    add_op = _function(table, _ADD_OP, _AddOp)
    add_domain = _function(table, _ADD_DOMAIN, _AddDomain)

    def on_create_domain(name: bytes, out: Any) -> int | None:
        status = create_domain(name, out)
        if not status:
            domains[out[0]] = name.decode(errors="replace")
        return status

    def on_add_op(domain: int, op: int) -> int | None:
        status = add_op(domain, op)
        if not status:
            log("op", domain=domains.get(domain, "?"), **_described(op))
        return status

    def on_add_domain(options: int, domain: int) -> int | None:
        log("domain", domain=domains.get(domain, "?"))
        return add_domain(options, domain)

    for place, kind, function in (
        (_CREATE_DOMAIN, _CreateDomain, on_create_domain),
        (_ADD_OP, _AddOp, on_add_op),
        (_ADD_DOMAIN, _AddDomain, on_add_domain),
    ):
        callback = kind(function)
        _kept.append(callback)
        copy[place] = ctypes.cast(callback, _P).value
    return copy


def _entries(table: int) -> int:
    """How many entries can be copied without reading unmapped memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split(None, 1)[0].split("-"))
        if start <= table < end:
            return min((end - table) // _WORD, _MOST_ENTRIES)
    return _LEAST_ENTRIES


def _function(table: int, place: int, kind: Any) -> Any:
    return kind(ctypes.cast(table, ctypes.POINTER(_P))[place])


def _described(op: int) -> dict[str, Any]:
    """The contents of a struct OrtCustomOp; see CustomOp in csrc/adapters/ort/abi.h."""
    words = ctypes.cast(op, ctypes.POINTER(_P))

    def call(place: int, kind: Any, *arguments: Any) -> Any:
        return kind(words[place])(op, *arguments) if words[place] else None

    def side(kind_place: int, count_place: int, characteristic_place: int) -> list[list[str]]:
        found = []
        for index in range(min(call(count_place, _Count) or 0, 256)):
            number = call(kind_place, _Kind, index)
            name = _TYPES[number] if 0 <= number < len(_TYPES) else f"type {number}"
            given = call(characteristic_place, _Kind, index) or 0
            found.append([name, ("required", "optional", "variadic")[given if given < 3 else 0]])
        return found

    version = ctypes.cast(op, ctypes.POINTER(ctypes.c_uint32))[0]
    facts = {
        "op": (call(2, _Name) or b"?").decode(errors="replace"),
        "version": version,
        "provider": (call(3, _Name) or b"CPUExecutionProvider").decode(errors="replace"),
        "inputs": side(4, 5, 10),
        "outputs": side(6, 7, 11),
        "since": 1,
    }
    if version >= 17:
        facts["since"] = call(20, _Number) or 1
    return facts
