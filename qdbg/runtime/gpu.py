"""A launch on a real GPU, through the CUDA driver.

Everything else here asks no more of a GPU than `Gpu`: run a job, give the memory back.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Dynamic shared memory that a kernel has without asking (CUDA programming guide, "Compute Capabilities").
_UNASKED = 48 * 1024
#: Seconds between two looks whether a launch is over.
_POLL = 0.001


class GpuError(Exception):
    """The GPU did not do a job; `str()` is one sentence."""


class NoGpu(GpuError):
    """There is no driver or no GPU; `str()` is one sentence."""


@dataclass(frozen=True)
class Pointer:
    """A parameter that is the address of an array of the job."""

    array: str


@dataclass(frozen=True, eq=False)
class Job:
    """A launch for a GPU.

    ptx: the text of a module; kernel: an entry of it; shared: bytes of dynamic shared memory; parameters:
    in order, as bytes or as a pointer; arrays: name -> content before the launch; variables: module
    variables of interest, as content before the launch, of which no more than type and size count.
    """

    ptx: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: tuple[bytes | Pointer, ...]
    arrays: Mapping[str, NDArray[np.generic]]
    variables: Mapping[str, NDArray[np.generic]]


class Gpu(Protocol):
    """Something that runs jobs.  name: of the device; details: facts about it for a report."""

    name: str
    details: Mapping[str, Any]

    def run(self, job: Job) -> dict[str, NDArray[np.generic]]:
        """Arrays and variables after the launch; without the variables that the module hides.

        Raises GpuError.
        """
        ...


class CudaGpu:
    """The first GPU that the NVIDIA driver offers.

    driver: the module `cuda.bindings.driver`, or what behaves like it; patience: seconds that a launch may
    take.  Raises NoGpu.
    """

    def __init__(self, driver: Any = None, patience: float = 30.0):
        self._driver = _bindings() if driver is None else driver
        self._patience = patience
        attribute = self._driver.CUdevice_attribute
        try:
            self._call("cuInit", 0)
            self._device = self._call("cuDeviceGet", 0)
            name = self._call("cuDeviceGetName", 256, self._device)
            major, minor = (
                self._call("cuDeviceGetAttribute", which, self._device)
                for which in (
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                )
            )
            version = self._call("cuDriverGetVersion")
            self._open()
        except NoGpu:
            raise
        except GpuError as error:
            raise NoGpu(f"no NVIDIA GPU can be used here: {error}; `qdbg doctor` says more") from None
        self.name = name.rstrip(b"\0").decode()
        self.details: Mapping[str, Any] = {
            "compute_capability": f"{major}.{minor}",
            "driver": f"{version // 1000}.{version % 1000 // 10}",
        }

    def run(self, job: Job) -> dict[str, NDArray[np.generic]]:
        """See `Gpu`.  An error leaves the GPU ready for the next job."""
        try:
            return self._run(job)
        except GpuError:
            # A launch that failed or goes on has spoilt the context, and everything in it.
            self._call("cuDevicePrimaryCtxReset", self._device)
            self._open()
            raise

    def _run(self, job: Job) -> dict[str, NDArray[np.generic]]:
        module = self._call("cuModuleLoadData", job.ptx.encode() + b"\0")
        places: dict[str, Any] = {}
        for name, content in job.arrays.items():
            places[name] = self._call("cuMemAlloc", max(content.nbytes, 1))
            if content.nbytes:
                self._call("cuMemcpyHtoD", places[name], content.ctypes.data, content.nbytes)
        self._launch(module, job, places)
        found = {name: self._read(places[name], content) for name, content in job.arrays.items()}
        for name, content in job.variables.items():
            place = self._variable(module, name, content.nbytes)
            if place is not None:
                found[name] = self._read(place, content)
        for place in places.values():
            self._call("cuMemFree", place)
        self._call("cuModuleUnload", module)
        return found

    def _launch(self, module: Any, job: Job, places: Mapping[str, Any]) -> None:
        function = self._call("cuModuleGetFunction", module, job.kernel.encode())
        if job.shared > _UNASKED:
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, attribute, job.shared)
        values = [
            int(places[p.array]).to_bytes(8, "little") if isinstance(p, Pointer) else p
            for p in job.parameters
        ]
        buffers = [ctypes.create_string_buffer(value, len(value)) for value in values]
        addresses = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        self._call(
            "cuLaunchKernel", function, *job.grid, *job.block, job.shared, 0, ctypes.addressof(addresses), 0
        )
        end = time.monotonic() + self._patience
        # Asked for again and again, since a wait in the driver could not be interrupted.
        while (status := self._driver.cuStreamQuery(0)[0]) == self._driver.CUresult.CUDA_ERROR_NOT_READY:
            if time.monotonic() > end:
                raise GpuError(f"the launch did not end within {self._patience:g} s")
            time.sleep(_POLL)
        self._check("the launch", status)

    def _open(self) -> None:
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self._device))

    def _read(self, place: Any, like: NDArray[np.generic]) -> NDArray[np.generic]:
        content = np.empty_like(like)
        if content.nbytes:
            self._call("cuMemcpyDtoH", content.ctypes.data, place, content.nbytes)
        return content

    def _variable(self, module: Any, name: str, size: int) -> Any:
        """The address of a module variable, None where the module does not show it."""
        status, place, found = self._driver.cuModuleGetGlobal(module, name.encode())
        if status == self._driver.CUresult.CUDA_ERROR_NOT_FOUND:
            return None
        self._check("cuModuleGetGlobal", status)
        return place if found == size else None

    def _call(self, name: str, *arguments: Any) -> Any:
        """What a driver function returns besides its status: nothing, or one value."""
        status, *results = getattr(self._driver, name)(*arguments)
        self._check(name, status)
        return results[0] if results else None

    def _check(self, what: str, status: Any) -> None:
        if status != self._driver.CUresult.CUDA_SUCCESS:
            _, text = self._driver.cuGetErrorString(status)
            raise GpuError(f"{what}: {text.decode() if text else status}")


def _bindings() -> Any:
    try:
        driver = import_module("cuda.bindings.driver")
        driver.cuDriverGetVersion()  # the library behind it is loaded by the first call
    except (ImportError, RuntimeError) as error:
        lacking = "cuda-bindings, the package that calls it," if isinstance(error, ImportError) else "it"
        raise NoGpu(
            f"no NVIDIA driver can be used here ({lacking} is not installed), so there is no GPU to compare "
            "with; run this where there is one"
        ) from None
    return driver
