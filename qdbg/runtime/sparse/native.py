"""The compiled code as the engine calls it: loaded from the cache without numba, whose import alone takes
half a second.

An object file in the cache holds one entry and all that it calls; its folder is named after this
package's source, the processor and LLVM's version.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from qdbg.runtime.checkpoints import cache_directory, keep_newest
from qdbg.runtime.engine import Progress

#: (address of a `Table`'s numbers, tokens, position of the first) -> a token or an index.
Entry = Callable[[int, int, int], int]
_DIGEST = hashlib.sha256().digest_size
_FOLDERS = "compiled-"
_loaded: dict[str, Entry] = {}


def entry(name: str, progress: Progress | None = None) -> Entry:
    """The function `single.feed` or `block.check`, compiled if it never was on this machine.

    progress: called several times a second while compiling, with (steps done, steps).
    """
    if name not in _loaded:
        code = _kept(name)
        if code is None:
            code = _compile(name, progress)
            _keep(name, code)
        _loaded[name] = _load(name, code)
    return _loaded[name]


@cache
def _folder() -> Path:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    where = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    digest.update("\n".join((llvmlite.__version__, *where)).encode())
    return cache_directory() / f"{_FOLDERS}{digest.hexdigest()[:12]}"


def _compile(name: str, progress: Progress | None) -> bytes:
    """Compile in another process, which ends at once when this one is interrupted and takes the memory
    that it needed with it; here, where no other can do it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    with tempfile.TemporaryDirectory(prefix="qdbg-") as folder, suppress(OSError):
        file = Path(folder) / "entry.o"
        with subprocess.Popen(
            [sys.executable, "-m", "qdbg.runtime.sparse.compile", name, str(file)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment, start_new_session=True,  # ctrl+c is this process's affair
        ) as compiler:  # fmt: skip
            try:
                assert compiler.stdout is not None
                for line in compiler.stdout:
                    if progress is not None:
                        done, steps = map(int, line.split())
                        progress(done, steps)
                if compiler.wait() == 0:
                    return file.read_bytes()
            finally:
                compiler.kill()
    from qdbg.runtime.sparse.compile import compile_entry

    return compile_entry(name)


def _kept(name: str) -> bytes | None:
    """An object file from the cache, unless it is damaged: machine code must not be run on trust."""
    with suppress(OSError):
        content = (_folder() / f"{name}.o").read_bytes()
        if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
            return content[_DIGEST:]
    return None


def _keep(name: str, code: bytes) -> None:
    """Keep an object file, where the cache can be written."""
    with suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True)
        temporary = _folder() / f"{name}.{os.getpid()}"
        temporary.write_bytes(hashlib.sha256(code).digest() + code)
        os.replace(temporary, _folder() / f"{name}.o")
        keep_newest(_folder().parent, f"{_FOLDERS}*/{name}.o")


@cache
def _linker() -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)


def _load(name: str, code: bytes) -> Entry:
    linker = _linker()
    linker.add_object_file(llvm.ObjectFileRef.from_data(code))
    linker.finalize_object()
    # Python's lock is kept: to take it again after every pass would be to wait for a busy interface.
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)
    return prototype(linker.get_function_address(name))
