"""The device code of a CUDA file that also holds host code.

NVRTC refuses every function without `__device__` or `__global__` and knows no host headers.  So host
functions and host variables are blanked out (lines stay where they are), local headers are treated
likewise, and headers that no device code needs become empty stand-ins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .host_headers import STAND_INS, is_host_library

if TYPE_CHECKING:
    from tree_sitter import Node

_DEVICE = ("__global__", "__device__", "__constant__", "__shared__", "__managed__")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?P<open>[<"])(?P<name>[^>"\n]+)[>"]', re.MULTILINE)
_DEVICE_MACRO = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\n|[^\n])*?__(?:device|global)__", re.MULTILINE
)
_CONTAINERS = frozenset({
    "translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "preproc_if",
    "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef", "field_declaration_list", "ERROR",
})  # fmt: skip
_CLASSES = frozenset({"struct_specifier", "class_specifier", "union_specifier"})
_ALIASES = frozenset({"type_definition", "alias_declaration", "using_declaration"})


@dataclass(frozen=True)
class DeviceSource:
    """What the device compiler gets.

    `headers` maps include names to contents, `missing` names those that were not found anywhere and
    taken as empty, `instantiations` are the template kernels that the host code launches (`k<float>`).
    """

    text: str
    headers: dict[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    instantiations: tuple[str, ...] = ()


def device_source(text: str, folder: Path, include_folders: Sequence[Path]) -> DeviceSource:
    """Blanks the host code of `text`, a file that stands in `folder`, and collects its headers."""
    headers: dict[str, str] = {}
    missing: list[str] = []
    waiting = [(text, folder)]
    while waiting:
        current, place = waiting.pop()
        for match in _INCLUDE.finditer(current):
            name = match["name"].strip()
            if name in headers or name in missing:
                continue
            local = place / name
            if match["open"] == '"' and local.is_file():
                included = local.read_text(encoding="utf-8", errors="replace")
                headers[name] = blank_host_code(included)
                waiting.append((included, local.parent))
            elif is_host_library(name) or (name in STAND_INS and not _is_in(name, include_folders)):
                headers[name] = STAND_INS.get(name, "")
            elif match["open"] == "<" and not _is_in(name, (folder, *include_folders)):
                headers[name] = ""
                missing.append(name)
    return DeviceSource(blank_host_code(text), headers, tuple(missing), _instantiations(text))


def _is_in(name: str, folders: Sequence[Path]) -> bool:
    return any((folder / name).is_file() for folder in folders)


def _tree(data: bytes) -> Node:
    """The syntax tree of CUDA source."""
    import tree_sitter
    import tree_sitter_cuda

    language = tree_sitter.Language(tree_sitter_cuda.language())
    return tree_sitter.Parser(language).parse(data).root_node


def blank_host_code(text: str) -> str:
    """`text` with spaces where host functions, host variables and types of the host library stood."""
    data = text.encode()
    result = bytearray(data)
    for node in _host_nodes(_tree(data), _device_words(data)):
        for place in range(node.start_byte, node.end_byte):
            if result[place] not in b"\r\n":
                result[place] = ord(" ")
    return result.decode()


def _device_words(data: bytes) -> re.Pattern[bytes]:
    """Matches what marks device code: the CUDA words, and the file's macros that hold them."""
    words = {word.encode() for word in _DEVICE} | set(_DEVICE_MACRO.findall(data))
    return re.compile(rb"\b(?:" + b"|".join(re.escape(word) for word in sorted(words)) + rb")\b")


def _host_nodes(root: Node, device: re.Pattern[bytes]) -> Iterator[Node]:
    """The outermost nodes that are host code.  An explicit stack: nesting has no limit."""
    stack = [root]
    while stack:
        node = stack.pop()
        inner = _declared(node)
        if inner.type in _CONTAINERS:
            stack.extend(inner.children)
        elif inner.type in _CLASSES:
            text = inner.text or b""
            if b"std::" in text and not device.search(text):
                yield node
            else:
                stack.extend(child for child in inner.children if child.type == "field_declaration_list")
        elif _is_host(inner, device):
            yield node


def _declared(node: Node) -> Node:
    """What a template or a one-line `extern "C"` declares; the node itself otherwise."""
    kinds = ("template_declaration", "linkage_specification")
    while node.type in kinds and node.children and node.children[-1].type != "declaration_list":
        inner = [child for child in node.children if child.type != ";"]
        node = inner[-1]
    return node


def _is_host(node: Node, device: re.Pattern[bytes]) -> bool:
    text = node.text or b""
    if node.type == "function_definition":
        body = node.child_by_field_name("body")
        head = text[: body.start_byte - node.start_byte] if body is not None else text
        is_defaulted = any(
            child.type in ("default_method_clause", "delete_method_clause") for child in node.children
        )
        return not (device.search(head) or is_defaulted or re.search(rb"\bconstexpr\b", head))
    if node.type == "declaration":
        is_constant = re.search(rb"\b(?:const|constexpr)\b", text) and not re.search(rb"\bstd::|\(", text)
        return not (device.search(text) or is_constant)
    return node.type in _ALIASES and b"std::" in text


def _walk(root: Node, kind: str) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == kind:
            yield node
        stack.extend(reversed(node.children))


def _instantiations(text: str) -> tuple[str, ...]:
    """The template kernels that the file launches, e.g. `k<float, 3>`."""
    found: dict[str, None] = {}
    for call in _walk(_tree(text.encode()), "call_expression"):
        callee = call.child_by_field_name("function")
        is_launch = any(child.type == "kernel_call_syntax" for child in call.children)
        if is_launch and callee is not None and callee.type == "template_function":
            found[(callee.text or b"").decode()] = None
    return tuple(found)


def kernel_parameters(text: str) -> list[tuple[str, tuple[str | None, ...]]]:
    """The name of every `__global__` function with a body, and of its parameters (None: unnamed)."""
    found: list[tuple[str, tuple[str | None, ...]]] = []
    for function in _walk(_tree(text.encode()), "function_definition"):
        body = function.child_by_field_name("body")
        head = (function.text or b"")[: body.start_byte - function.start_byte if body else None]
        if b"__global__" not in head:
            continue
        declarator = next(_walk(function, "function_declarator"), None)
        name = declarator.child_by_field_name("declarator") if declarator else None
        parameters = declarator.child_by_field_name("parameters") if declarator else None
        if name is None or parameters is None:
            continue
        kinds = ("parameter_declaration", "optional_parameter_declaration")
        names = tuple(_parameter_name(one) for one in parameters.children if one.type in kinds)
        found.append(((name.text or b"").decode(), names))
    return found


def _parameter_name(parameter: Node) -> str | None:
    declarator = parameter.child_by_field_name("declarator")
    identifier = next(_walk(declarator, "identifier"), None) if declarator is not None else None
    return (identifier.text or b"").decode() if identifier is not None else None
