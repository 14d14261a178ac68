"""Stands in for `cuda.bindings.driver`: memory is the process's own, and the interpreter runs the kernels.

Calls, results and handles are as the CUDA driver API and its binding have them: a tuple that begins with
the status; texts are bytes; `kernelParams` is the address of an array of addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdbg.compiler.source import ptx_source
from qdbg.runtime.ptx import Kernels

Arrays = dict[str, NDArray[np.generic]]
NAME = b"Simulated GPU"


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class DeviceAttribute(IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


class FunctionAttribute(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


OK = Status.CUDA_SUCCESS


class FakeDriver:
    """alter: changes what a kernel left in its arrays, by parameter name; statuses: what launches end with,
    one after the other (then all well); present: whether there is a device.
    """

    CUresult, CUdevice_attribute, CUfunction_attribute = Status, DeviceAttribute, FunctionAttribute

    def __init__(
        self,
        alter: Callable[[str, Arrays], None] = lambda kernel, arrays: None,
        statuses: tuple[Status, ...] = (),
        present: bool = True,
    ):
        self._alter, self._statuses, self._present = alter, list(statuses), present
        self._memory: dict[int, NDArray[np.uint8]] = {}
        self._globals: dict[str, NDArray[np.uint8]] = {}
        self.launches: list[str] = []
        self.resets = 0

    # -- device and context ---------------------------------------------------------------------------

    def cuInit(self, flags: int) -> tuple[Status]:
        return (OK if self._present else Status.CUDA_ERROR_NO_DEVICE,)

    def cuDriverGetVersion(self) -> tuple[Status, int]:
        return OK, 13010

    def cuDeviceGet(self, ordinal: int) -> tuple[Status, int]:
        return OK, ordinal

    def cuDeviceGetName(self, length: int, device: int) -> tuple[Status, bytes]:
        return OK, NAME + b"\0" * (length - len(NAME))

    def cuDeviceGetAttribute(self, attribute: DeviceAttribute, device: int) -> tuple[Status, int]:
        return OK, {75: 9, 76: 0}[attribute]

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Status, str]:
        return OK, "context"

    def cuDevicePrimaryCtxReset(self, device: int) -> tuple[Status]:
        self._memory.clear()
        self.resets += 1
        return (OK,)

    def cuCtxSetCurrent(self, context: str) -> tuple[Status]:
        return (OK,)

    def cuGetErrorString(self, status: Status) -> tuple[Status, bytes]:
        return OK, status.name.removeprefix("CUDA_ERROR_").lower().replace("_", " ").encode()

    # -- memory ---------------------------------------------------------------------------------------

    def cuMemAlloc(self, size: int) -> tuple[Status, int]:
        address = 0x7F00_0000_0000 + 512 * len(self._memory)
        self._memory[address] = np.zeros(size, np.uint8)
        return OK, address

    def cuMemFree(self, address: int) -> tuple[Status]:
        self._memory[address] = np.zeros(0, np.uint8)
        return (OK,)

    def cuMemcpyHtoD(self, address: int, source: int, size: int) -> tuple[Status]:
        self._memory[address][:size] = np.frombuffer(ctypes.string_at(source, size), np.uint8)
        return (OK,)

    def cuMemcpyDtoH(self, target: int, address: int, size: int) -> tuple[Status]:
        ctypes.memmove(target, self._memory[address].tobytes(), size)
        return (OK,)

    # -- modules --------------------------------------------------------------------------------------

    def cuModuleLoadData(self, image: bytes) -> tuple[Status, Kernels]:
        assert image.endswith(b"\0")
        return OK, Kernels(ptx_source(image[:-1].decode()))

    def cuModuleUnload(self, module: Kernels) -> tuple[Status]:
        return (OK,)

    def cuModuleGetFunction(self, module: Kernels, name: bytes) -> tuple[Status, Any]:
        return OK, (module, name.decode())

    def cuModuleGetGlobal(self, module: Kernels, name: bytes) -> tuple[Status, int | None, int]:
        content = self._globals.get(name.decode())
        if content is None:
            return Status.CUDA_ERROR_NOT_FOUND, None, 0
        _, address = self.cuMemAlloc(content.nbytes)
        self._memory[address][:] = content
        return OK, address, content.nbytes

    def cuLaunchKernel(
        self, function: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
        stream: int, parameters: int, extra: int,
    ) -> tuple[Status]:  # fmt: skip
        module, name = function
        kernel = next(k for k in module.source.ptx.kernels if k.name == name)
        addresses = (ctypes.c_void_p * len(kernel.parameters)).from_address(parameters)
        arrays: Arrays = {}
        arguments: list[Any] = []
        names = module.source.parameter_names[name]
        for label, parameter, address in zip(names, kernel.parameters, addresses, strict=True):
            value = ctypes.string_at(address, parameter.size)
            number = int.from_bytes(value, "little")
            if parameter.count is not None:
                arguments.append(value)
            elif number in self._memory:
                arrays[label] = self._memory[number]
                arguments.append(self._memory[number])
            elif parameter.type in ("f32", "f64"):
                arguments.append(np.frombuffer(value, f"<f{parameter.size}")[0])
            else:
                arguments.append(number)
        launch = module.launch(name, (gx, gy, gz), (bx, by, bz), *arguments, shared=shared)
        launch.run()
        interpreter = launch.interpreter
        self._globals = {
            a.name: interpreter.array(a.name).view(np.uint8)
            for a in interpreter.bound.allocations
            if a.name not in arrays
        }
        self._alter(name, arrays)
        self.launches.append(name)
        return (OK,)

    def cuStreamQuery(self, stream: int) -> tuple[Status]:
        return (self._statuses.pop(0) if self._statuses else OK,)
