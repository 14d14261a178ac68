"""Lowering: a PTX kernel becomes a program of the machine, for one launch geometry.

    PTX -> select -> arrange -> fold -> uniform registers -> divergence bits -> registers -> emit -> assemble

The program depends on code and geometry only, never on parameter values or data.
"""

from __future__ import annotations

from qdbg.compiler.lowering.accumulate import accumulate_loads
from qdbg.compiler.lowering.assemble import assemble
from qdbg.compiler.lowering.barriers import traps_first
from qdbg.compiler.lowering.bounds import use_bounds
from qdbg.compiler.lowering.emit import Code, Emitter, Locations
from qdbg.compiler.lowering.fold import fold_definitions, propagate_copies, remove_dead
from qdbg.compiler.lowering.frontier import Frontier
from qdbg.compiler.lowering.inductions import merge_inductions
from qdbg.compiler.lowering.ir import Blocks, Geometry, LoweringError, Parameter, Stop, high_half
from qdbg.compiler.lowering.layout import Graph, arrange, shorter_first
from qdbg.compiler.lowering.liveness import Liveness
from qdbg.compiler.lowering.meetings import meetings_of, revised
from qdbg.compiler.lowering.operands import BLOCK_INDEX
from qdbg.compiler.lowering.registers import allocate
from qdbg.compiler.lowering.scopes import Scopes, TooDeep, assign_scopes
from qdbg.compiler.lowering.select import select
from qdbg.compiler.lowering.spill import Spills
from qdbg.compiler.lowering.uniform import uniform_registers
from qdbg.compiler.lowering.ways import share_way
from qdbg.compiler.machine.config import NANO, WARP, MachineConfig
from qdbg.compiler.machine.isa import Program, Reg
from qdbg.compiler.ptx.ir import Function, Module

__all__ = ["SUPPORTED", "Geometry", "LoweringError", "lower"]

#: The families of `ptx.families` whose instructions are all lowered; of others some are.
SUPPORTED = frozenset("ACDEGHJKLMNOS")
#: So many times lanes are made to wait in one place before a kernel counts as nested too deep.
_SHARED_WAYS = 16


def lower(module: Module, kernel: Function, geometry: Geometry, config: MachineConfig = NANO) -> Program:
    """Compile a kernel of `module`.

    Raises LoweringError, which names the kernel's line, where it does not fit the machine; PtxError for an
    instruction whose operands make no sense.
    """
    try:
        return _lower(module, kernel, geometry, config)
    except LoweringError as error:
        raise error.at(f"{module.path}:{kernel.line}") from None


def _lower(module: Module, kernel: Function, geometry: Geometry, config: MachineConfig) -> Program:
    if geometry.threads > config.lanes:
        raise LoweringError(
            f"a block of {geometry.threads} threads is larger than the machine's {config.lanes} lanes",
            "launch more, smaller blocks",
        )
    uniform, frontier, scopes = _selected(module, kernel, geometry, config.slots)
    graph = frontier.graph
    spills = Spills(graph, uniform, geometry.spill_base, geometry.threads)
    code, locations = _emitted(frontier, scopes, spills, config)
    _check_memory(spills, config)
    instructions = assemble(code, [(loop.header, loop.end + 1) for loop in graph.loops], config.program)
    numbers = locations.numbers
    registers = {name: Reg(number, name in locations.uniform) for name, number in numbers.items()}
    fixed = {value: locations.base + place for value, place in locations.fixed.items()}
    return Program(
        code=instructions,
        uniforms={register: value for value, register in fixed.items() if isinstance(value, int)},
        parameters={
            register: value.word for value, register in fixed.items() if isinstance(value, Parameter)
        },
        locations={
            name: place
            for name, place in (registers | spills.places).items()
            if name.removesuffix(high_half("")) in kernel.registers
        },
        spilled=(spills.base, spills.size) if spills.size else (0, 0),
        block_index={axis: numbers[name] for axis, name in BLOCK_INDEX.items() if name in numbers},
        lacking={b.end.ptx[-1]: b.end.lacks for b in graph.blocks if isinstance(b.end, Stop) and b.end.lacks},
    )


def _selected(
    module: Module, kernel: Function, geometry: Geometry, slots: int
) -> tuple[frozenset[str], Frontier, Scopes]:
    """The kernel's blocks, optimised and in order: uniform registers, where lanes may wait, and their bits.

    Instructions of a warp are cheaper where no lane is elsewhere.  That is supposed of all of them at first.
    """
    meetings = meetings_of(kernel)
    while True:
        uniform, frontier, scopes = _scoped(optimised(select(module, kernel, geometry, meetings)), slots)
        before, meetings = meetings, revised(meetings, frontier, geometry.threads > WARP)
        if meetings == before:
            return uniform, frontier, scopes


def _scoped(blocks: Blocks, slots: int) -> tuple[frozenset[str], Frontier, Scopes]:
    """Blocks with their divergence bits.

    They stay in the order of the source unless that takes more bits than there are: then lanes wait as
    little as possible, and where that is not enough, some of them wait in one place.
    """
    failures: list[TooDeep] = []
    while True:
        graph = Graph(blocks)
        uniform, frontier = uniform_registers(graph, Liveness(graph))
        try:
            return uniform, frontier, assign_scopes(frontier, slots)
        except TooDeep as error:
            if failures and error.together is not None and len(failures) <= _SHARED_WAYS:
                share_way(blocks, error.together, range(min(error.together)))
            elif failures:
                raise min([error, *failures], key=lambda e: e.needed) from None
            failures.append(error)
        blocks = arrange(shorter_first(blocks))


def _emitted(
    frontier: Frontier, scopes: Scopes, spills: Spills, config: MachineConfig
) -> tuple[Code, Locations]:
    """The code with registers allocated.  Constants and uniform values have as many of these as fit."""
    uniforms = config.uniforms
    while True:
        numbers = allocate(frontier, spills, config.registers, uniforms)
        locations = Locations(numbers, frozenset(spills.uniform))
        code = Emitter(frontier, scopes, locations).run()
        fixed = len(locations.fixed)
        excess = locations.base + fixed - config.uniforms
        if excess <= 0:
            return code, locations
        if spills.materialise(locations.fixed, excess):
            continue
        if not 0 < config.uniforms - fixed < uniforms:
            raise LoweringError(
                f"the kernel has too many parameters: with other uniform values they need "
                f"{locations.base + fixed} uniform registers and the machine has {config.uniforms}",
                "pass a pointer to them",
            )
        uniforms = config.uniforms - fixed


def _check_memory(spills: Spills, config: MachineConfig) -> None:
    """Whether the registers in memory have room there."""
    end, left = spills.base + spills.size, max(0, config.memory_end - spills.base)
    if spills.size and end > config.memory_end:
        raise LoweringError(
            f"the kernel keeps too many values at once: those that do not fit the machine's "
            f"{config.registers} registers a lane need {spills.size} bytes of memory and the launch leaves "
            f"{left} of {4 * config.words}",
            "launch smaller blocks or split the kernel",
            grows=True,
        )


def optimised(blocks: Blocks) -> Blocks:
    """Blocks in layout order, improved until nothing changes."""
    blocks = arrange(traps_first(arrange(blocks)))
    before = None
    while before != (before := [(list(block.operations), block.end) for block in blocks]):
        for improve in (propagate_copies, use_bounds, fold_definitions, remove_dead, merge_inductions):
            improve(blocks)
            blocks = arrange(blocks)
    accumulate_loads(blocks)
    return blocks
