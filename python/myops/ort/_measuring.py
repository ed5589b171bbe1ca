"""What `bench` and `explain` share: sessions, inputs on which they run, the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from myops._text import printable
from myops.onnx.graph import files, scopes

MOST_THREADS = 1024  # of a session


def opened(
    name: str,
    model: Any,
    threads: int,
    libraries: Sequence[Any],
    *,
    known: bool = True,
    profile: str = "",
    optimised: str = "",
) -> Any:
    """A session of a model.

    Args:
        name: What messages call it.
        model: What is loaded.
        threads: For one node.
        libraries: Custom-op libraries of others.
        known: Whether the libraries that myops knows are loaded.
        profile: Where ONNX Runtime writes a profile to; "" for none.
        optimised: Where it writes what it made of the model; "" for nowhere.

    Raises:
        RuntimeError: It does not load.
    """
    import onnxruntime

    from myops.onnx.comparison.ort_side import Runner
    from myops.ort import _session, pyops

    if isinstance(model, (str, os.PathLike)):
        proto = files.load(model, weights=False)
    else:
        model = proto = files.load(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    options.intra_op_num_threads = threads
    # Threads of one session that still wait for work would take the cores of the next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if optimised:
        options.optimized_model_filepath = optimised
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    needed = Runner(libraries).libraries_of(proto)
    try:
        if not known:
            _session.register_libraries(options, [os.fspath(item) for item in needed])
            return onnxruntime.InferenceSession(
                _session.loadable(model, options), options, providers=["CPUExecutionProvider"]
            )
        load = pyops.pyop_session if scopes.needs_pyops(proto) else _session.session
        return load(model, session_options=options, libraries=needed)
    except (ImportError, OSError, ValueError):
        raise
    except Exception as error:  # ONNX Runtime's own kinds have no common base
        raise RuntimeError(
            f"ONNX Runtime does not load {printable(name)}: {error}. `myops doctor` explains why"
        ) from error


def fed(
    titles: Mapping[str, Any],
    sessions: Mapping[Any, Any],
    threads: int,
    asked: Any,
    command: str = "bench",
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs on which all models run, and what is said of them."""
    from myops.onnx.comparison.ort_side import RunError, as_type
    from myops.ort import _feeding, _narrow

    names = list(titles)
    wanted = {item.name: item.type for item in sessions[names[0], threads].get_inputs()}
    for name in names[1:]:
        other = {item.name for item in sessions[name, threads].get_inputs()}
        if other != wanted.keys():
            raise ValueError(
                f"{command}: against: {printable(name)} has the inputs "
                f"{', '.join(map(repr, sorted(other))) or 'none'}, expected those of the first "
                f"model: {', '.join(map(repr, sorted(wanted))) or 'none'}"
            )

    def typed(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {  # inputs that have a value in the file are not among those of a session
            name: as_type(array, wanted[name]) if name in wanted else array
            for name, array in feed.items()
        }

    def all_run(feed: Mapping[str, np.ndarray]) -> None:
        for name in names:
            try:
                _narrow.bound(sessions[name, threads], typed(feed))()
            except Exception as error:  # ONNX Runtime's own kinds have no common base
                raise RunError(f"{printable(name)}: {error}") from error

    proto = files.load(titles[names[0]], weights=False)
    chosen = _feeding.that_run(proto, asked, all_run, defaults=True)
    chosen.feed = typed(chosen.feed)
    return chosen.feed, chosen.described()


def machine() -> dict[str, Any]:
    """CPU, cores, and the version of ONNX Runtime."""
    import onnxruntime

    from myops.ort._doctor import environment

    cpu = environment.cpu()
    return {"cpu": cpu["name"], "cores": cpu["cores"], "onnxruntime": onnxruntime.__version__}
