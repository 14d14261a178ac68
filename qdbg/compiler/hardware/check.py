"""Exactness in bfloat16, checked before any weight is written.

bfloat16 has 8 significant bits.  Sums inside a matrix product are kept in float32, but whatever is
stored between two products is rounded: gate and up values, their product, every residual dimension.
"""

from __future__ import annotations

from qdbg.compiler.hardware.netlist import Netlist
from qdbg.compiler.hardware.schedule import Schedule
from qdbg.compiler.hardware.signals import Linear

#: Integers up to here are exact in bfloat16.
LIMIT = 256


def significant_bits(number: float) -> int:
    """Bits from the highest to the lowest one set; powers of two do not count."""
    numerator = abs(float(number).as_integer_ratio()[0])
    return (numerator // (numerator & -numerator)).bit_length() if numerator else 0


def check(netlist: Netlist, schedule: Schedule) -> list[str]:
    """Everything that would not be exact, a sentence each; empty when all is well."""
    problems = []
    for signal in schedule.lives:
        if not signal.clock and max(abs(signal.low), abs(signal.high)) > LIMIT:
            problems.append(f"{signal.name} reaches {signal.high}, over {LIMIT}")
    for units in schedule.units.values():
        for unit in units:
            where = f"the unit that drives {next(iter(unit.drives)).name}"
            problems += [f"{where}: {p}" for p in _weights(unit.gate) + _weights(unit.up)]
            if any(s.clock for s in unit.inputs):
                continue
            gate = 1 if unit.strict else unit.gate.bounds[1]
            up = max(abs(bound) for bound in unit.up.bounds)
            if gate > LIMIT or up > LIMIT or gate * up > LIMIT:
                problems.append(f"{where} reaches {gate} * {up}, over {LIMIT}")
            if any(significant_bits(weight) > 8 for weight in unit.drives.values()):
                problems.append(f"{where} has an output weight of more than 8 bits")
    for heads in schedule.heads.values():
        for head in heads:
            for form in head.forms():
                problems += [f"head {head.name}: {p}" for p in _weights(form)]
    return problems


def _weights(form: Linear) -> list[str]:
    weights = [*form.terms.values(), form.constant]
    return [f"weight {w} has more than 8 bits" for w in weights if significant_bits(w) > 8]
