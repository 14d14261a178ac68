"""Syntax colours for PTX and CUDA, by one regular expression each.

A highlighter library would cost a tenth of the time to the first picture; these two languages need
only words, numbers, registers and comments.
"""

from __future__ import annotations

import re

from qdbg.ui.pane import Span

_PTX = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/|^\s*\.loc\b[^\n]*)"
    r"|(?P<literal>\b0[xXfFdD][0-9a-fA-F]+U?\b|(?<![\w%$.])-?\d+\b|\"[^\"\n]*\")"
    r"|(?P<register>%\w+(?:\.[xyzw])?)"
    r"|(?P<name>\$\w+)"
    r"|(?P<keyword>(?<=[\t ;}])[a-z][a-z0-9]*(?=[.;\t ])|^\s*\.[a-z]\w*)"
    r"|(?P<type>\.[a-z]\w*)",
    re.DOTALL | re.MULTILINE,
)
_WORDS = (
    "__global__|__device__|__host__|__shared__|__constant__|__restrict__|__launch_bounds__|extern|static|const"
    "|template|typename|struct|return|if|else|for|while|do|break|continue|switch|case|default|goto|sizeof|using"
    "|namespace|inline|constexpr|volatile|true|false"
)
_TYPES = (
    "(?:unsigned|signed|int|float|double|char|short|long|bool|void|auto|size_t|half|u?int\\d+(?:_t|\\d)?"
    "|float[234]|dim3)"
)
_CUDA = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<literal>\"(?:\\.|[^\"\n])*\"|'(?:\\.|[^'\n])*'"
    r"|\b0[xX][0-9a-fA-F]+[uUlL]*\b|\b\d+(?:\.\d*)?(?:[eE][-+]?\d+)?[fFuUlL]*\b)"
    r"|(?P<register>\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b)"
    rf"|(?P<keyword>\b(?:{_WORDS})\b|^\s*\#\s*\w+)"
    rf"|(?P<type>\b{_TYPES}\b)"
    r"|(?P<name>\b\w+(?=\s*\())",
    re.DOTALL | re.MULTILINE,
)


def highlight(lines: tuple[str, ...], language: str) -> list[list[Span]]:
    """Lines of source ("ptx" or "cuda") as styled spans; tabs become spaces."""
    text = "\n".join(line.expandtabs(4) if language == "cuda" else _ptx_columns(line) for line in lines)
    result: list[list[Span]] = [[]]
    position = 0
    for match in (_PTX if language == "ptx" else _CUDA).finditer(text):
        _add(result, text[position : match.start()], "")
        _add(result, match.group(), match.lastgroup or "")
        position = match.end()
    _add(result, text[position:], "")
    return result


def _ptx_columns(line: str) -> str:
    """Operands in one column, whatever the compiler's tabs: as `\\tmul.wide.s32 \\t%rd5, ...`."""
    match = re.match(r"^(?P<guard>\s*@!?%\w+)?\s+(?P<opcode>[a-z][\w.:]*)\s+(?P<rest>\S.*)$", line)
    if not match:
        return re.sub(r"^\s+", " ", line).expandtabs(2)
    guard = (match["guard"] or "").strip()
    opcode = f"{guard} {match['opcode']}" if guard else match["opcode"]
    return f" {opcode:<14} {match['rest'].expandtabs(1)}"


def _add(lines: list[list[Span]], text: str, style: str) -> None:
    first, *rest = text.split("\n")
    if first:
        lines[-1].append((first, style))
    for line in rest:
        lines.append([(line, style)] if line else [])
