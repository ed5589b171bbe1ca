"""Replaces nodes of op libraries in an earlier version by nodes of the newest one."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from myops import _libraries
from myops._description import OpInfo
from myops.onnx import module_paths
from myops.onnx.builder import Builder, LoweringError
from myops.onnx.graph import scopes, versions
from myops.onnx.lowering import site_of, write


def upgrade(model: onnx.ModelProto) -> tuple[list[str], dict[str, str]]:
    """Changes `model`; returns the nodes that were upgraded, and those that were not.

    A model has one version of a domain, so all of a domain's nodes are upgraded, or none.
    """
    upgraded: list[str] = []
    kept: dict[str, str] = {}
    for domain in dict.fromkeys([info.domain for _, info in _outdated(model)]):
        titles = [_title(node, info) for node, info in _outdated(model, domain)]
        changed = onnx.ModelProto.FromString(model.SerializeToString())
        reasons: dict[str, str] = {}
        while not reasons and any(_outdated(changed, domain)):
            reasons = _one_version(changed, domain)
        if reasons:
            kept |= dict.fromkeys(titles, f"so is another node of {domain}") | reasons
            continue
        upgraded += titles
        model.CopyFrom(changed)
        versions.state(model)
    return upgraded, kept


def _outdated(model: onnx.ModelProto, domain: str = "") -> Iterator[tuple[onnx.NodeProto, OpInfo]]:
    for scope in scopes.all_scopes(model):
        yield from _outdated_in(scope, domain)


def _outdated_in(scope: scopes.Scope, domain: str) -> Iterator[tuple[onnx.NodeProto, OpInfo]]:
    for node in scope.graph.node:
        info = scopes.op_of(node)
        if info is None or (domain and info.domain != domain):
            continue
        if info is not _libraries.find_node(info.domain, info.onnx_type):
            yield node, info


def _title(node: onnx.NodeProto, info: OpInfo) -> str:
    newest = _libraries.find_node(info.domain, info.onnx_type)
    assert newest is not None  # info is one of its versions
    step = f"{info.since_version} -> {newest.since_version}"
    return f"{node.name or node.output[0]!r} ({info.node} {step})"


def _one_version(model: onnx.ModelProto, domain: str) -> dict[str, str]:
    """Writes each node with the next version of its type; returns the reason if that fails."""
    names = scopes.Names(model)
    reasons: dict[str, str] = {}
    for scope in reversed(list(scopes.all_scopes(model))):
        nodes: list[onnx.NodeProto] = []
        outdated = {node.output[0]: info for node, info in _outdated_in(scope, domain)}
        for node in scope.graph.node:
            info = outdated.get(node.output[0]) if node.output else None
            if info is None:
                nodes.append(node)
                continue
            library = _libraries.find(domain)
            form = None if library is None else library.upgrade_form(info)
            if form is None:
                reasons[_title(node, info)] = (
                    f"the op {info.name} has no rule that upgrades it to version "
                    f"{info.since_version + 1}: its library.define has no upgrade="
                )
                continue
            prefix = node.name or node.output[0]
            builder = Builder(site_of(node, scope), scope.opset, names.fresh, prefix)
            try:
                written = write(builder, list(node.output), form)
            except LoweringError as error:
                reasons[_title(node, info)] = str(error)
                continue
            module_paths.inherit(node, written)
            nodes.extend(written)
        if outdated and not reasons:
            kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del scope.graph.node[:]
            scope.graph.node.extend(kept)
    return reasons
