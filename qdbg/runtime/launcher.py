"""From a kernel's file and a person's options to a launch that an engine can run.

The one place that strings the compiler's stages together: source -> launch -> program -> prompt.
Command line and debugger both start here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from qdbg.compiler.machine.config import MEMORY_BASE, NANO, MachineConfig
from qdbg.compiler.machine.isa import Program
from qdbg.compiler.machine.vocabulary import Token, Vocabulary, prompt
from qdbg.runtime.engine import Engine, Progress
from qdbg.runtime.launch import (
    BoundLaunch,
    Launch,
    LaunchError,
    bind,
    launch_for,
    parse_launches,
    with_overrides,
)
from qdbg.runtime.launch_memory import function_addresses
from qdbg.runtime.launch_options import STOCK, LaunchOptions, StockOptions
from qdbg.runtime.launch_private import private_memory

if TYPE_CHECKING:
    from qdbg.compiler.source import Source
    from qdbg.runtime.checkpoints import Checkpoint
    from qdbg.runtime.session import Session


@dataclass(frozen=True, eq=False)
class Image:
    """A launch as the machine takes it.

    uniforms: uniform register -> initial value; memory: word-aligned byte address -> initial word;
    allocated: (byte address, bytes) of what may be touched; threads: lanes that exist; shared: (byte
    address, bytes) of the block's shared memory, part of what is allocated.
    """

    config: MachineConfig
    program: Program
    uniforms: dict[int, int]
    memory: dict[int, int]
    allocated: tuple[tuple[int, int], ...]
    threads: int
    shared: tuple[int, int]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens of the machine that the launch is for."""
        return Vocabulary(self.config)

    @cached_property
    def tokens(self) -> list[Token]:
        """The prompt."""
        return prompt(self.program, self.uniforms, self.memory, self.allocated, self.threads, self.shared)

    @cached_property
    def ids(self) -> list[int]:
        """The prompt as token ids: all that the model is ever told about the launch."""
        return [self.vocabulary[token] for token in self.tokens]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A launch that is ready to run: `image` on a machine, `source` and `bound` on the interpreter."""

    source: Source
    bound: BoundLaunch
    config: MachineConfig

    @property
    def kernel(self) -> str:
        """The kernel's name as its author wrote it."""
        return self.source.display_names.get(self.bound.kernel.name, self.bound.kernel.name)

    @property
    def title(self) -> str:
        """The launch as a person would write it, without its arguments."""
        return f"{self.kernel}<<<{_dimensions(self.bound.grid)}, {_dimensions(self.bound.block)}>>>"

    @cached_property
    def image(self) -> Image:
        """The launch lowered to the machine; raises LoweringError where it does not fit."""
        return _image(self.source, self.bound, self.config)


def prepare(path: Path, options: LaunchOptions, config: MachineConfig | None = NANO) -> Prepared:
    """Read a kernel's file, choose its launch and bind it.

    The launch must fit the machine `config`; None means that only the interpreter will run it.
    Raises CompileError, PtxError or LaunchError, each of which is one sentence.
    """
    from qdbg.compiler.source import load_module

    source = load_module(path, options.opt)
    launch = with_overrides(
        choose_launch(source, options.kernel, options.number),
        options.kernel,
        options.grid,
        options.block,
        options.shared,
        options.arguments,
    )
    if config is None:
        return Prepared(source, bind(source, launch), NANO)
    return Prepared(source, bind_for(config, source, launch), config)


def bind_for(config: MachineConfig, source: Source, launch: Launch) -> BoundLaunch:
    """Bind a launch for a machine, which runs the kernel with its calls expanded.

    Raises LaunchError where it does not fit.
    """
    from qdbg.compiler.mangling import display_name
    from qdbg.compiler.ptx.inline import MAXIMUM, inlined

    bound = bind(source, launch, config.lanes, 4 * config.words)
    kernel = inlined(source.ptx, bound.kernel, display_name)
    if kernel is not bound.kernel and len(kernel.body) > MAXIMUM:
        raise LaunchError(
            f"{source.ptx.path}:{kernel.line}",
            f"the calls of {display_name(kernel.name)} expand to more than {MAXIMUM} PTX instructions and "
            f"the machine holds {config.program}; call less, or use --engine interpreter",
        )
    return replace(bound, kernel=kernel)


def open_engine(
    name: str,
    config: MachineConfig,
    progress: Progress | None = None,
    stock: StockOptions = STOCK,
    compiling: Progress | None = None,
) -> tuple[Engine, Checkpoint | None]:
    """The engine with this name for a machine, and the checkpoint that it runs (built if need be).

    `sparse` skips the checkpoint's zeros, `stock` is transformers; `emulator` is the architecture
    without a model, which tests use.  `stock` says where and how the engine of that name computes.

    progress: of building the checkpoint; compiling: of compiling `sparse`, once on every computer.
    """
    if name == "emulator":
        from qdbg.runtime.emulator import Emulator

        return Emulator(config), None
    from qdbg.runtime.checkpoints import find_or_build

    checkpoint = find_or_build(config, progress=progress)
    if name == "stock":
        from qdbg.runtime.stock import StockEngine

        return StockEngine(checkpoint.path, stock.dtype, stock.device), checkpoint
    from qdbg.runtime.sparse import native
    from qdbg.runtime.sparse.engine import SparseEngine

    native.entry("feed", compiling)
    return SparseEngine(checkpoint.path), checkpoint


def open_session(
    prepared: Prepared, engine: Engine, geometry: str, pass_limit: int, history: int = 0
) -> Session:
    """A session on a launch, not started yet.

    geometry: the checkpoint in a few words; history: megabytes for snapshots, 0 where nobody will go back.
    """
    from qdbg.runtime.history import History
    from qdbg.runtime.interpreter import Interpreter
    from qdbg.runtime.session import Session

    image = prepared.image
    interpreter = Interpreter(prepared.source.ptx, prepared.bound)
    return Session(
        prepared.source,
        prepared.bound,
        image.program,
        engine,
        interpreter,
        image.vocabulary,
        image.config,
        image.ids,
        prepared.title,
        geometry,
        pass_limit,
        History(history << 20),
    )


def choose_launch(source: Source, kernel: str | None, number: int | None) -> Launch:
    """The file's launch with this number (from 1), else the first one of `kernel` or of the file."""
    if number is None:
        return launch_for(source, kernel)
    launches = parse_launches(source.text, str(source.path))
    if not 1 <= number <= len(launches):
        raise LaunchError(
            str(source.path),
            f"--launch {number} is not there; the file's comments offer {len(launches)} "
            f"launch{'' if len(launches) == 1 else 'es'}",
        )
    return launches[number - 1]


def _image(source: Source, bound: BoundLaunch, config: MachineConfig) -> Image:
    from qdbg.compiler.lowering import Geometry, LoweringError, lower

    symbols = function_addresses(source.ptx) | bound.symbols
    private = private_memory(bound)
    if private.used > config.memory_end:
        raise LaunchError(
            bound.launch.origin,
            f"the launch needs {private.used - MEMORY_BASE} bytes of memory (of which local "
            f"memory takes {private.frame_bytes} for each of {bound.threads} threads) and the machine has "
            f"{4 * config.words}; use less",
        )
    geometry = Geometry(
        bound.grid,
        bound.block,
        bound.shared_base,
        symbols | private.frame,
        bound.shared_bytes,
        private.parameters,
        private.local,
        private.stride,
        private.scratch,
        private.end,
        bound.launch.shared,
    )
    try:
        program = lower(source.ptx, bound.kernel, geometry, config)
    except LoweringError as error:
        raise error.at(source.kernel_place(bound.kernel), source.opt) from None
    parameters = list(_words(bound.parameters))
    uniforms = dict(program.uniforms)
    uniforms |= {register: parameters[word] for register, word in program.parameters.items()}
    memory: dict[int, int] = {}
    for allocation in bound.allocations:
        for index, word in enumerate(_words(allocation.data.tobytes())):
            memory[allocation.address + 4 * index] = word
    allocated = [(a.address, a.size) for a in bound.allocations]
    if private.parameter_bytes:
        allocated.append((private.parameters, private.parameter_bytes))
        memory |= {private.parameters + 4 * index: word for index, word in enumerate(parameters)}
    allocated += private.windows
    if private.scratch_bytes:
        allocated.append((private.scratch, private.scratch_bytes))
    shared = (bound.shared_base, bound.shared_bytes)
    if bound.shared_bytes:
        allocated.append(shared)
    if program.spilled[1]:
        allocated.append(program.spilled)
    return Image(config, program, uniforms, memory, tuple(allocated), bound.threads, shared)


def _words(data: bytes) -> Iterator[int]:
    """Bytes as little-endian 32-bit words, the last one padded with zeros."""
    for start in range(0, len(data), 4):
        yield int.from_bytes(data[start : start + 4], "little")


def _dimensions(size: tuple[int, int, int]) -> str:
    x, y, z = size
    if (y, z) == (1, 1):
        return str(x)
    return f"({x}, {y})" if z == 1 else f"({x}, {y}, {z})"
