"""Sessions of ONNX Runtime that know the op libraries of this process."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from myops import _libraries
from myops._checked import checked
from myops._names import near_misses
from myops.ort import _library_file
from myops.ort._named_libraries import Policy, choose

if TYPE_CHECKING:
    import onnx
    import onnxruntime

MINIMUM_ONNXRUNTIME = (1, 17)

_MAX_BYTES = 2**31 - 1  # what protobuf can put into one message

# The libraries in SessionOptions that went through register(): ONNX Runtime fails, later and
# with other words, when it meets one twice.
_registered: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def get_library_path() -> str:
    """The file name of the ONNX Runtime custom-op library.

    Every ONNX Runtime loads it by `RegisterCustomOpsLibrary`, in any host language; in Python
    `register` and `session` do. It stands alone: no torch, no Python.

    Returns:
        The absolute path of libmyops_ort.so.

    Raises:
        FileNotFoundError: The library has not been built.

    Example:
        >>> options = onnxruntime.SessionOptions()
        >>> options.register_custom_ops_library(myops.ort.get_library_path())
    """
    return str(_libraries.OURS.ort_library)


def checked_onnxruntime() -> Any:
    """The module onnxruntime.

    Raises:
        ImportError: It is missing or too old; the text says what to do.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            "myops.ort needs ONNX Runtime; get it with `pip install 'onnxruntime>=1.17'`"
        ) from error
    version = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if version < MINIMUM_ONNXRUNTIME:
        raise ImportError(
            f"myops.ort: got onnxruntime {onnxruntime.__version__}, expected 1.17 or later; get it "
            "with `pip install --upgrade onnxruntime`"
        )
    return onnxruntime


@checked(leave=("session_options",))  # after whether there is an ONNX Runtime
def register(
    session_options: onnxruntime.SessionOptions, *more_libraries: str | os.PathLike[str]
) -> onnxruntime.SessionOptions:
    """Lets sessions made with `session_options` run the nodes of the domain "myops".

    The op libraries of other packages that this process knows so far (the package is imported, or
    `myops.op_library` was called) are registered too.

    Registering the same options again does nothing, unless you did it the first time by
    `register_custom_ops_library` itself: then making a session fails ("Domain already set").

    Args:
        session_options: They are changed in place.
        more_libraries: Custom-op libraries of others to register too.

    Returns:
        `session_options`.

    Raises:
        ImportError: onnxruntime is missing or older than 1.17.
        FileNotFoundError: Our library has not been built, or one of the others is missing.
        ValueError: The library of onnxruntime-extensions is among the others after
            `enable_pyops()`; both would provide the domain "myops".

    Example:
        >>> options = myops.ort.register(onnxruntime.SessionOptions())
        >>> session = onnxruntime.InferenceSession("model.onnx", options)
    """
    onnxruntime = checked_onnxruntime()
    if not isinstance(session_options, onnxruntime.SessionOptions):
        raise TypeError(
            f"register: session_options: got {session_options!r}, expected an "
            "onnxruntime.SessionOptions"
        )
    known = [library.ort_library for library in _libraries.known()]
    libraries = [os.fspath(file) for file in (*known, *more_libraries) if file is not None]
    _refuse_pyops_beside(libraries)
    register_libraries(session_options, libraries)
    return session_options


def register_libraries(
    session_options: Any, libraries: Sequence[str], hashes: Mapping[str, str] | None = None
) -> None:
    """Registers each library once with the options.

    hashes: Of libraries that are copies: what they are known by, as the next copy has another path.
    """
    done = _registered.setdefault(session_options, set())
    for library in libraries:
        if not os.path.isfile(library):
            raise FileNotFoundError(f"no such custom-op library: {library}")
        known_by = (hashes or {}).get(library, os.path.realpath(library))
        if known_by not in done:
            _library_file.refuse_damaged(library)
            # The system's loader looks for a bare name in its search path only.
            session_options.register_custom_ops_library(os.path.abspath(library))
            done.add(known_by)


def _refuse_pyops_beside(libraries: Sequence[str]) -> None:
    pyops = sys.modules.get("myops.ort.pyops")
    if pyops is not None and pyops.is_enabled() and pyops.extensions_library() in libraries:
        raise ValueError(
            "libraries: got the library of onnxruntime-extensions after enable_pyops(), expected "
            "either our library or the PyOps; ONNX Runtime refuses a domain that two libraries "
            "provide. pyop_session() needs no enable_pyops()"
        )


def loadable(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    session_options: Any = None,
    exists: bool = True,
) -> str | bytes:
    """A model as ONNX Runtime takes it: a path, or the bytes of a file.

    session_options: They get the weights of a ModelProto that is too large for one message.
    exists: Whether a file must be there. (Of signed ones, the signature says what is missing.)

    Raises:
        FileNotFoundError: No such file.
        IsADirectoryError: It is a folder.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not path or os.path.isdir(path):  # of which ONNX Runtime says that it is no protobuf
            raise IsADirectoryError(f"model: {path or repr(path)}: got a folder, expected a file")
        if exists and not os.path.exists(path):  # of which each ONNX Runtime has its own error
            folder = os.path.dirname(path) or "."
            beside = os.listdir(folder) if os.path.isdir(folder) else []
            raise FileNotFoundError(
                f"no such file: {path}.{near_misses(os.path.basename(path), beside)}"
            )
        return path
    return serialized(model, session_options)


def _open_libraries(model: Any) -> None:
    """Makes the op libraries of installed packages known whose domains stand in the model."""
    known = {library.domain for library in _libraries.known()}
    for domain in set(_libraries.installed()) - known:
        if _mentions(model, domain):
            _libraries.find(domain)


def _mentions(model: Any, domain: str) -> bool:
    """Whether a model imports a domain; of a file, whether the name is in it, as that is quick."""
    if not isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)):
        return any(item.domain == domain for item in model.opset_import)
    if not isinstance(model, (str, os.PathLike)):
        return domain.encode() in bytes(model)
    if not os.path.isfile(model) or not os.path.getsize(model):
        return False  # ONNX Runtime's own message is better
    with open(model, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(domain.encode()) >= 0


def serialized(model: onnx.ModelProto, session_options: Any = None) -> bytes:
    """The bytes of a model.

    session_options: As for `loadable`.

    Raises:
        ValueError: The model is too large for one message.
    """
    from myops.ort import _large

    if _fits(model):
        return model.SerializeToString()
    if session_options is not None:
        light = _large.without_weights(model, session_options)
        if _fits(light):
            return light.SerializeToString()
        raise ValueError(
            "model: got a ModelProto of 2 GiB or more that are no weights, or weights of types "
            "that NumPy lacks, expected less; save it with onnx.save_model(model, path, "
            "save_as_external_data=True) and pass the path"
        )
    raise ValueError("model: got 2 GiB or more, expected less: PyOps need it in one message")


def _fits(model: onnx.ModelProto) -> bool:
    """Whether protobuf can hold the model in one message."""
    from google.protobuf.message import EncodeError

    try:
        return model.ByteSize() <= _MAX_BYTES
    except (EncodeError, ValueError):  # what protobuf raises depends on its version
        return False


@checked()
def session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    *,
    providers: Sequence[str | tuple[str, Mapping[str, Any]]] = ("CPUExecutionProvider",),
    session_options: onnxruntime.SessionOptions | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    named_libraries: Policy = "check",
    trusted_keys: Sequence[str | os.PathLike[str] | bytes] | None = None,
    **options: Any,
) -> onnxruntime.InferenceSession:
    """Loads a model with nodes of the domain "myops" into ONNX Runtime.

    The op libraries of other packages are found by themselves: those that this process knows
    (`myops.op_library`), and those of installed packages whose domain the model names.

    A model from `bundle` names the libraries that it needs, each with its hash. A library is code
    that runs in this process, and a model may come from anywhere, so by default only what is
    installed or passed in `libraries` is loaded, and has to be what the model names.

    Args:
        model: A path, the bytes of a file, or an onnx.ModelProto. Of 2 GiB and more, the
            weights stay in memory as long as the session or its options.
        providers: Execution providers, most wanted first. Our nodes run on the CPU, and on
            CUDAExecutionProvider where the op has a kernel for it (docs/cuda.md).
        session_options: Your own; our library is added to them, and the weights of a ModelProto
            of 2 GiB or more, so that they serve no other session then. Default: new ones.
        libraries: Custom-op libraries of others that the model needs too.
        named_libraries: What to do with the libraries that the model names. "check": one that is
            installed or in `libraries` must have the named hash. "trust": else the file beside
            the model is loaded, if it has the named hash; only for folders that you would run a
            program from. "signed": the model, its weights and libraries must be those of a bundle
            that a trusted key signed (`myops bundle --sign`), and the very bytes that were verified
            are loaded. "ignore": as if the model named none.
        trusted_keys: For "signed": public keys (Ed25519), as PEM files or the bytes of one.
            Default: the files that the environment variable MYOPS_TRUSTED_KEYS lists, separated by
            ":".
        options: Passed on to onnxruntime.InferenceSession, such as `provider_options`.

    Returns:
        The session.

    Raises:
        TypeError: An argument is unknown here and to InferenceSession, which would ignore it.
        ImportError: onnxruntime is missing or older than 1.17.
        FileNotFoundError: There is no such model, our library has not been built, or another is
            missing.
        ValueError: The ModelProto has 2 GiB or more besides weights of types that NumPy has, the
            options hold the weights of another, or the model names a library that is not at hand,
            is for another platform, or has other bytes. With "signed": there is no signature by a
            trusted key, or a file is not what was signed.

    Example:
        >>> session = myops.ort.session("upscale.onnx")
        >>> (y,) = session.run(None, {"x": x, "scales": np.float32([1, 1, 2.5, 2.5])})
    """
    from myops.ort import _large, _passed_on

    onnxruntime = checked_onnxruntime()
    _passed_on.refuse_unknown(session, options, onnxruntime)
    if session_options is None:
        session_options = onnxruntime.SessionOptions()
    _large.refuse_held(session_options)
    source = loadable(model, session_options, named_libraries != "signed")
    given = [os.fspath(library) for library in libraries]
    with contextlib.ExitStack() as until_loaded:
        hashes: dict[str, str] = {}
        if named_libraries == "signed":
            from myops.ort._signing import verified

            source, hashes = until_loaded.enter_context(verified(source, trusted_keys))
        elif trusted_keys is not None:
            raise ValueError(
                f"trusted_keys: got keys and named_libraries={named_libraries!r}, expected "
                "named_libraries='signed', which alone looks at signatures"
            )
        _open_libraries(source)
        needed = [*choose(source, given, named_libraries), *given]
        _refuse_pyops_beside(needed)
        register_libraries(session_options, needed, hashes)
        try:
            return onnxruntime.InferenceSession(
                source, session_options, providers=list(providers), **options
            )
        except UnicodeDecodeError as error:  # of ONNX Runtime's own message
            raise ValueError(
                "model: got a name that is no UTF-8, expected an ONNX model; the file is damaged "
                f"({error})"
            ) from error
