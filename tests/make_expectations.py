"""Recompute the `// qdbg: expect` values of kernels with a C++ compiler and no GPU.

usage: python tests/make_expectations.py ORACLE_DIR [KERNEL.cu ...] [--check]

ORACLE_DIR holds `cudacpu.h`, which runs CUDA device code as host C++.  Every kernel (default: all of
`kernels/`) is compiled with g++ against it and `host_cuda.h` and run as its launch comments say, under
three schedules of the threads; schedules that disagree are a race and an error.  The values after
`expect NAME =` are then rewritten in place, so a new expectation is written as `// qdbg: expect out = ?`
(or `// qdbg: expect out ~ ? ulp 2`).  With --check nothing is written, and the exit status is 1 if a file
would change.

Nothing of qdbg is imported: the values must not come from the code that they test.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
C_TYPES = {
    "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t",
    "i32": "int32_t", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t",
    "f32": "float", "f64": "double", "bytes": "uint8_t",
}  # fmt: skip
SCHEDULES = 3

COMMENT = re.compile(r"//\s*qdbg:(.*)$")
LAUNCH = re.compile(r"\s*launch\s+(\w+)\s*<<<(.*?)>>>\s*\((.*)\)\s*$")
EXPECT = re.compile(r"(//\s*qdbg:\s*expect\s+(\w+)\s*[=~]\s*)(.*?)(\s+ulp\s+\d+)?$")
ARRAY = re.compile(r"(\w+)\[(.*?)\](?:\s*=\s*(.+))?$")
RANDOM = re.compile(r"random\((.*)\)$")
#: Headers of CUDA's whose content `host_cuda.h` has.
HEADER = re.compile(r"#include\s*<cuda\w*\.h>")
#: Dynamic shared memory, which C++ cannot express: `extern __shared__ int s[];`
DYNAMIC = re.compile(r"extern\s+__shared__\s+([\w\s]+?)\s+(\w+)\[\];")


@dataclass
class Launch:
    """One launch comment: `arguments` maps names to their text, `expected` names the arrays wanted."""

    kernel: str
    configuration: list[str]
    arguments: dict[str, str]
    expected: list[str] = field(default_factory=list)


def split(text: str) -> list[str]:
    """The comma-separated parts of `text`, commas inside brackets left alone."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def read_launches(text: str) -> list[Launch]:
    """The launches of a kernel file, in order."""
    launches: list[Launch] = []
    statement = ""
    for line in text.splitlines():
        if match := COMMENT.match(line):
            statement += match[1]
        if match := LAUNCH.match(statement):
            statement = ""
            pairs = (argument.split("=", 1) for argument in split(match[3]))
            arguments = {name.strip(): value.strip() for name, value in pairs}
            launches.append(Launch(match[1], split(match[2]), arguments))
        elif match := EXPECT.match(line):
            statement = ""
            launches[-1].expected.append(match[2])
    return launches


def declaration(name: str, text: str) -> str:
    """The C++ definition of one argument: a vector for an array, else a constant."""
    match = ARRAY.fullmatch(text)
    if match is None:
        return f"const auto {name} = {text};"
    type_ = C_TYPES[match[1]]
    inside, fill = split(match[2]), match[3]
    if len(inside) > 1 or (fill is None and not inside[0].isdigit()):
        values = ", ".join(f"({type_}){literal(v, type_)}" for v in inside)
        return f"std::vector<{type_}> {name} = {{{values}}};"
    if random := RANDOM.match(fill or ""):
        bounds = split(random[1])
        return f"auto {name} = host::random<{type_}>({inside[0]}, {', '.join(bounds)});"
    if fill == "iota":
        return f"std::vector<{type_}> {name}({inside[0]}); std::iota({name}.begin(), {name}.end(), 0);"
    return f"std::vector<{type_}> {name}({inside[0]}, ({type_}){fill or 0});"


def literal(text: str, type_: str) -> str:
    """A number of the launch language in C++; integers are 64 bits wide, so that they fit any type."""
    if type_ in ("float", "double"):
        return text.replace("inf", "INFINITY").replace("nan", "NAN")
    return f"{text}{'ULL' if type_ == 'uint64_t' else 'LL'}"


def program(kernel: Path, launches: list[Launch]) -> str:
    """A C++ program that runs every launch and prints one line for each expected array."""
    text = HEADER.sub("", DYNAMIC.sub(r"\1 *\2 = (\1 *)cudacpu::dyn_smem();", kernel.read_text()))
    lines = ['#include "host_cuda.h"', text]
    lines += ["int main(int, char **argv) {", "cudacpu::cfg.order = atoi(argv[1]);"]
    for launch in launches:
        arrays = {name for name, text in launch.arguments.items() if ARRAY.fullmatch(text)}
        grid, block, *shared = (
            part.strip("()") if part.startswith("(") else part for part in launch.configuration
        )
        structs = {name for name in arrays if launch.arguments[name].startswith("bytes")}
        passed = ", ".join(
            f"host::Struct{{{n}.data()}}"
            if n in structs
            else f"host::Pointer{{{n}.data()}}"
            if n in arrays
            else n
            for n in launch.arguments
        )
        lines.append("{")
        lines += [declaration(name, text) for name, text in launch.arguments.items()]
        lines.append(
            f"cudacpu::launch(dim3({grid}), dim3({block}), {shared[0] if shared else 0},"
            f" {launch.kernel}, {passed});"
        )
        lines += [f"host::print({n});" for n in launch.expected]
        lines.append("}")
    return "\n".join([*lines, "}"])


def expectations(kernel: Path, launches: list[Launch], oracle: Path) -> list[str]:
    """The values of every expected array of a file, in order, as the text after `=`."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.cpp"), Path(folder, "kernel")
        source.write_text(program(kernel, launches))
        compiler = ["g++", "-std=c++17", "-O1", "-fwrapv", "-ffp-contract=off", "-w"]
        compiler += [f"-I{oracle}", f"-I{ROOT / 'tests'}"]
        subprocess.run([*compiler, str(source), "-o", str(binary)], check=True)
        runs = [
            subprocess.run([str(binary), str(order)], check=True, capture_output=True, text=True).stderr
            for order in range(SCHEDULES)
        ]
    if len(set(runs)) > 1:
        raise SystemExit(f"{kernel}: the result depends on the schedule, so the kernel has a race")
    types = [launch.arguments[name].split("[")[0] for launch in launches for name in launch.expected]
    return [
        f"{type_}[{', '.join(line.split())}]" for type_, line in zip(types, runs[0].splitlines(), strict=True)
    ]


def rewrite(kernel: Path, oracle: Path) -> str:
    """The text of a kernel file with its expectations recomputed."""
    text = kernel.read_text()
    launches = read_launches(text)
    if not any(launch.expected for launch in launches):
        return text
    values = iter(expectations(kernel, launches, oracle))
    lines = (EXPECT.sub(lambda m: m[1] + next(values) + (m[4] or ""), line) for line in text.splitlines())
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("oracle", type=Path)
    parser.add_argument("kernels", type=Path, nargs="*")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_intermixed_args()
    stale = 0
    for kernel in args.kernels or sorted((ROOT / "kernels").rglob("*.cu")):
        text = rewrite(kernel, args.oracle)
        if text != kernel.read_text():
            stale += 1
            print(f"{'stale' if args.check else 'rewritten'}: {kernel}")
            if not args.check:
                kernel.write_text(text)
    return int(args.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
