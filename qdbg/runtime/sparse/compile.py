"""From the functions of this package to an object file: `python -m qdbg.runtime.sparse.compile ENTRY FILE`.

numba translates each function to LLVM's language, without optimising it; then all of them are optimised as
a whole, of which nothing but the entry can be called.  That takes a quarter of the time that numba
needs by itself, and what a Python function might raise disappears with the code that would report it.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pathlib import Path

import llvmlite.binding as llvm

#: What can be called, and the module that defines it.
ENTRIES = {"feed": "single", "check": "block"}
#: What the optimisation of the whole takes, in terms of the translation.
_OPTIMISING = 0.7


def compile_entry(name: str) -> bytes:
    """The object file of an entry, whose symbol is its name."""
    from qdbg.runtime.sparse.compiled import llvm_of

    return _optimised(name, *llvm_of(getattr(_module(name), name)))


def _module(name: str) -> object:
    os.environ.setdefault("NUMBA_OPT", "0")  # heard where numba was not imported before
    return import_module(f"qdbg.runtime.sparse.{ENTRIES[name]}")


def _optimised(name: str, assembly: str, symbol: str) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    whole = llvm.parse_assembly(assembly)
    for part in (*whole.functions, *whole.global_variables):
        if not part.is_declaration:
            part.linkage = "external" if part.name == symbol else "internal"
    whole.get_function(symbol).name = name
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    passes = llvm.create_pass_builder(target, tuning)
    passes.getModulePassManager().run(whole, passes)
    # Whatever is left of Python could not be found by a process that never imported numba.
    foreign = [
        f.name for f in whole.functions if f.is_declaration and f.name.startswith(("numba", "Py", "NRT"))
    ]
    if foreign:
        raise AssertionError(f"the compiled {name} would call {', '.join(foreign)}")
    return bytes(target.emit_object(whole))


def _tell_steps(name: str, done: threading.Event) -> None:
    """Print `steps done, steps` several times a second."""
    from qdbg.runtime.sparse.compiled import reached

    functions = reached(getattr(_module(name), name))
    while not done.wait(0.2):
        translated = sum(bool(function.signatures) for function in functions)
        print(translated, round(len(functions) * (1 + _OPTIMISING)), flush=True)


def main(name: str, file: str) -> None:
    """Compile an entry into a file, printing the progress."""
    done = threading.Event()
    threading.Thread(target=_tell_steps, args=(name, done), daemon=True).start()
    Path(file).write_bytes(compile_entry(name))
    done.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
