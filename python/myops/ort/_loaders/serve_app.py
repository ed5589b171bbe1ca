"""Serves the model of this folder with Ray Serve. Needs onnxruntime and ray[serve], no myops.

    serve run serve_app:app                        in this folder, or on a cluster

A request is a POST of a .npz file with an array for each input; the answer is a .npz file with the
outputs. Requests of one shape that arrive within BATCH_SECONDS go into one call, where axis 0 of
every input and output counts rows. Whether that gives equal bits is tried with the first of them
that differ from each other; where it does not, each request has a call of its own.
"""

from __future__ import annotations

import io
import os
import zipfile
from typing import Any

import load
import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

BATCH_ROWS = int(os.environ.get("BATCH_ROWS", "16"))
BATCH_SECONDS = float(os.environ.get("BATCH_SECONDS", "0.005"))
THREADS = int(os.environ.get("THREADS", "1"))
MOST_BYTES = int(os.environ.get("MOST_BYTES", str(256 * 2**20)))  # of a request
MOST_KINDS = 10_000  # of requests, of which is known whether they may share a call

Feed = dict[str, np.ndarray]


def packed(arrays: Feed) -> bytes:
    """The bytes of a .npz file."""
    stream = io.BytesIO()
    # Texts come as objects, which would be pickled, and nobody should load pickles.
    given: dict[str, Any] = {
        name: array.astype(np.str_) if array.dtype == object else array
        for name, array in arrays.items()
    }
    np.savez(stream, **given)
    return stream.getvalue()


def unpacked(data: bytes) -> Feed:
    """The arrays of a .npz file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:  # a small one may hold a large one
        size = sum(item.file_size for item in archive.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"got arrays of {size} bytes, expected at most {MOST_BYTES} bytes")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: _native(arrays[name]) for name in arrays.files}


def _native(array: np.ndarray) -> np.ndarray:
    """ONNX Runtime would take the bytes of the other byte order for numbers of this one."""
    return array.astype(array.dtype.newbyteorder("="))


class Model:
    """The session, and which requests may share a call."""

    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self._session = load.session(options)
        self._inputs = {item.name for item in self._session.get_inputs()}
        self._outputs = [item.name for item in self._session.get_outputs()]
        self._equal: dict[Any, bool] = {}

    def run(self, feeds: list[Feed]) -> list[Feed | Exception]:
        """The outputs of each request, or what is wrong with it."""
        found: list[Feed | Exception] = [ValueError("not run")] * len(feeds)
        groups: dict[Any, list[int]] = {}
        for place, feed in enumerate(feeds):
            groups.setdefault(self._kind(feed), []).append(place)
        for kind, places in groups.items():
            chosen = [feeds[place] for place in places]
            for place, outputs in zip(places, self._together(kind, chosen), strict=True):
                found[place] = outputs
        return found

    def _kind(self, feed: Feed) -> Any:
        return tuple(sorted((name, str(item.dtype), item.shape) for name, item in feed.items()))

    def _together(self, kind: Any, feeds: list[Feed]) -> list[Feed | Exception]:
        key = kind, len(feeds)
        if len(feeds) == 1 or self._equal.get(key) is False:
            return [self._one(feed) for feed in feeds]
        try:
            joined = {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
            outputs = self._call(joined)
            made = [
                {name: item[place : place + 1] for name, item in outputs.items()}
                for place in range(len(feeds))
            ]
            equal = all(len(item) == len(feeds) for item in outputs.values()) and all(
                item.shape[:1] == (1,) for feed in feeds for item in feed.values()
            )
        except Exception:  # what ONNX Runtime raises has no common base
            made, equal = [], False
        if equal and self._equal.get(key):
            return list(made)
        singles = [self._one(feed) for feed in feeds]
        answers = [item for item in singles if not isinstance(item, Exception)]
        if len(answers) == len(feeds):
            if not equal or not all(map(_same, made, answers)):
                self._equal[key] = False
            elif not all(_same(answers[0], item) for item in answers):  # else it shows nothing
                self._equal[key] = True
            while len(self._equal) > MOST_KINDS:  # clients choose the shapes
                self._equal.pop(next(iter(self._equal)))
        return singles

    def _one(self, feed: Feed) -> Feed | Exception:
        try:
            if feed.keys() != self._inputs:
                raise ValueError(
                    f"got the arrays {sorted(feed)}, expected one for each input: "
                    f"{sorted(self._inputs)}"
                )
            return self._call(feed)
        except Exception as error:  # what ONNX Runtime raises has no common base
            return error

    def _call(self, feed: Feed) -> Feed:
        return dict(zip(self._outputs, self._session.run(self._outputs, feed), strict=True))


def _same(first: Feed, second: Feed) -> bool:
    return first.keys() == second.keys() and all(
        first[name].tobytes() == second[name].tobytes() for name in first
    )


# At least as many as clients send at once: from a replica that is full, Ray's proxy waits longer
# after each attempt.
ONGOING = max(64, 4 * BATCH_ROWS)


@serve.deployment(ray_actor_options={"num_cpus": THREADS}, max_ongoing_requests=ONGOING)
class Served:
    """The HTTP side."""

    def __init__(self) -> None:
        self._model = Model()

    @serve.batch(max_batch_size=BATCH_ROWS, batch_wait_timeout_s=BATCH_SECONDS)
    async def _run(self, feeds: list[Feed]) -> list[Feed | Exception]:
        return self._model.run(feeds)

    async def __call__(self, request: Request) -> Response:
        """Answers a request; 400 and a sentence where it is wrong."""
        data = await request.body()
        if len(data) > MOST_BYTES:
            return Response(f"got {len(data)} bytes, expected at most {MOST_BYTES}", 413)
        try:
            feed = unpacked(data)
        except Exception:  # untrusted bytes: zipfile and NumPy raise errors of many types
            return Response("got no .npz file, expected one with an array for each input", 400)
        outputs = await self._run(feed)
        if isinstance(outputs, Exception):
            return Response(str(outputs), 400)
        return Response(packed(outputs), media_type="application/octet-stream")


_deployment: Any = Served
app = _deployment.bind()
