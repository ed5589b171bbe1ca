"""The versions of op libraries' domains that a model states in its opset_import."""

from __future__ import annotations

import onnx

from myops import _libraries
from myops._description import OpInfo
from myops.onnx.graph import scopes


def state(model: onnx.ModelProto) -> None:
    """Imports of each op library's domain the lowest version that has all its nodes.

    Raises:
        ValueError: No version has them all: two nodes mean different versions of their types.
    """
    for domain, infos in _used(model).items():
        version = max(info.since_version for info in infos)
        for info in infos:
            _refuse_outdated(info, infos, version)
        if all(item.domain != domain for item in model.opset_import):
            model.opset_import.add(domain=domain)
        for imports in (model.opset_import, *(item.opset_import for item in model.functions)):
            for item in imports:
                if item.domain == domain:
                    item.version = version


def _used(model: onnx.ModelProto) -> dict[str, list[OpInfo]]:
    found: dict[str, list[OpInfo]] = {}
    lists = [model.graph.node, *(f.node for f in model.functions if not scopes.is_body(f))]
    for nodes in lists:
        for node in scopes.all_nodes(nodes):
            info = scopes.op_of(node)
            if info is not None and info not in found.setdefault(info.domain, []):
                found[info.domain].append(info)
    return found


def _refuse_outdated(info: OpInfo, infos: list[OpInfo], version: int) -> None:
    library = _libraries.find(info.domain)
    assert library is not None  # it has the node
    later = [
        item
        for item in library.versions(info.onnx_type)
        if info.since_version < item.since_version <= version
    ]
    if later:
        other = next(item for item in infos if item.since_version == version)
        raise ValueError(
            f"{info.node}: got version {info.since_version}, of the op {info.name}, beside version "
            f"{version} of {other.node}, expected version {later[-1].since_version}, of the op "
            f"{later[-1].name}: a model has one version of the domain {info.domain!r}"
        )
