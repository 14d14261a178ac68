"""Arguments of a launch matched with a kernel's parameters and turned into bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdbg.compiler.ptx.ir import TYPE_BITS, Function, Variable
from qdbg.runtime.launch_language import Argument, Launch
from qdbg.runtime.launch_memory import Layout
from qdbg.runtime.launch_scanner import LaunchError
from qdbg.runtime.values import Scalar, float_bits, integer_bits

if TYPE_CHECKING:
    from qdbg.compiler.source import Source


def parameter_names(source: Source, kernel: Function) -> tuple[str, ...]:
    """The names a launch uses for the parameters: CUDA's where the source is there, else PTX's."""
    names = source.parameter_names.get(kernel.name, ())
    return names if len(names) == len(kernel.parameters) else tuple(p.name for p in kernel.parameters)


def match_arguments(
    source: Source, launch: Launch, kernel: Function, names: tuple[str, ...]
) -> list[Argument]:
    """An argument for each parameter: by name where all given names are known, else by position.

    PTX alone has no names worth typing, and a CUDA source may hide its own in a macro: without the
    author's names unknown ones are taken as labels.
    """
    display = source.display_names.get(kernel.name, kernel.name)
    given = launch.arguments
    if names and not given and not launch.written:
        raise LaunchError(str(source.path), _how_to_launch(display, kernel, names))
    unknown = [a for a in given if a.name is not None and a.name not in names]
    if unknown and (_are_the_authors(source, kernel, names) or len(given) > len(names)):
        raise LaunchError(
            unknown[0].origin,
            f"{display} has no parameter {unknown[0].name}; it has {', '.join(names) or 'none'}",
        )
    if len(given) > len(names):
        raise LaunchError(
            launch.origin, f"{display} takes {len(names)} arguments, not {len(given)}; remove some"
        )
    if unknown or any(a.name is None for a in given):
        if len(given) < len(names):
            missing = ", ".join(names[len(given) :])
            raise LaunchError(launch.origin, f"no value for {missing} of {display}; add {missing}")
        return list(given)
    by_name = {a.name: a for a in given}
    missing = ", ".join(n for n in names if n not in by_name)
    if missing:
        raise LaunchError(launch.origin, f"no value for {missing} of {display}; add {missing}")
    return [by_name[n] for n in names]


def _are_the_authors(source: Source, kernel: Function, names: tuple[str, ...]) -> bool:
    """Whether all names are those of a CUDA source; a compiler's own are `param_0` of `kernel_param_0`."""
    compilers = (p.name.endswith(f"_{name}") for name, p in zip(names, kernel.parameters, strict=True))
    return source.cuda_lines is not None and not any(compilers)


def _how_to_launch(display: str, kernel: Function, names: tuple[str, ...]) -> str:
    def example(parameter: Variable) -> str:
        if parameter.count is not None:
            return f"bytes[{parameter.size}]"
        if parameter.type in ("u64", "b64"):
            return "i32[32]"
        return "1.0" if parameter.type in ("f32", "f64") else "32"

    arguments = ", ".join(f"{n} = {example(p)}" for n, p in zip(names, kernel.parameters, strict=True))
    return (
        f"nothing says how to launch {display}; write a comment such as "
        f"`// qdbg: launch {display}<<<1, 32>>>({arguments})`, or give --block and --arg"
    )


def encode_argument(
    source: Source, argument: Argument, parameter: Variable, name: str, layout: Layout
) -> bytes:
    """The bytes of one parameter; an array for a pointer is placed in memory on the way.

    A pointer takes an array of any type: PTX pointers are untyped, and to give the bytes of `int`s as
    `u8[...]` is a way to write them.
    """
    value = argument.value
    label = argument.name or name
    try:
        if isinstance(value, Scalar):
            if parameter.count is not None:
                raise ValueError(
                    f"{label} is a struct of {parameter.size} bytes; write its content as bytes[...]"
                )
            return _scalar(value.text, parameter.type, label).to_bytes(parameter.size, "little")
        data = value.materialise(source.path.parent)
    except ValueError as error:
        raise LaunchError(argument.origin, str(error)) from None
    if parameter.count is not None:
        if data.nbytes != parameter.size:
            raise LaunchError(
                argument.origin,
                f"{label} is a struct of {parameter.size} bytes, its value has {data.nbytes}; give all of it",
            )
        return data.tobytes()
    if TYPE_BITS[parameter.type] != 64 or parameter.type not in ("u64", "b64", "s64"):
        raise LaunchError(
            argument.origin,
            f"{label} is a single .{parameter.type}, not a pointer; give a number, not an array",
        )
    return layout.place(label, data).address.to_bytes(8, "little")


def _scalar(text: str, type_name: str, label: str) -> int:
    """The bits of a number for a parameter type.  CUDA's `int` is `.u32` in PTX, so both signs fit."""
    bits = TYPE_BITS[type_name]
    if type_name in ("f32", "f64"):
        return float_bits(text, bits)
    if type_name[0] not in "usb":
        raise ValueError(f"{label} is a .{type_name}, for which a launch has no notation")
    try:
        value = integer_bits(text, -(1 << (bits - 1)), (1 << bits) - 1, f".{type_name}")
    except ValueError as error:
        raise ValueError(f"{label} = {error}") from None
    return value & (1 << bits) - 1
