"""`qdbg gpu-check`, with a driver whose GPU is the interpreter, and differences put into its results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cuda_driver import NAME, Arrays, FakeDriver, Status

from qdbg.cli import main
from qdbg.cli.failure import Exit
from qdbg.runtime.gpu import CudaGpu, NoGpu
from qdbg.runtime.gpu_check import Compared, Difference, approximate, compare_instruction, compare_launch
from qdbg.runtime.launch import bind, parse_launches
from qdbg.runtime.launch_options import LaunchOptions
from qdbg.runtime.launcher import prepare

KERNELS = Path(__file__).parent.parent / "kernels"
#: Every kind of parameter; `counter` is a variable of the module.  Thread i writes
#: inp[i] * scale + step + pair.y, where pair.y is the second word of a struct: 4, 7, 10.
PARAMETERS = """// qdbg: launch mix<<<(1, 3), 1>>>(inp = i32[1, 2, 3], pair = bytes[9, 0, 0, 0, 2, 0, 0, 0], scale = 3, step = -1, out = i32[3])
.version 8.0
.target sm_75
.address_size 64
.visible .global .u32 counter = 40;
.visible .entry mix(.param .u64 inp, .param .align 4 .b8 pair[8], .param .u32 scale, .param .s32 step,
    .param .u64 out)
{
.reg .b32 %r<9>; .reg .b64 %d<5>;
ld.param.u64 %d0, [inp]; ld.param.u64 %d1, [out]; mov.u32 %r0, %ctaid.y;
mul.wide.u32 %d2, %r0, 4; add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
ld.global.u32 %r1, [%d0]; ld.param.u32 %r2, [scale]; ld.param.u32 %r3, [step]; ld.param.u32 %r4, [pair+4];
mad.lo.s32 %r5, %r1, %r2, %r3; add.s32 %r5, %r5, %r4;
st.global.u32 [%d1], %r5; atom.global.add.u32 %r6, [counter], 1;
ret;
}
"""  # noqa: E501
#: 1 / x of x = 1, 2, 4, 8; 2 ulp are allowed in the array.
RECIPROCAL = """// qdbg: launch inverse<<<1, 4>>>(x = f32[1, 2, 4, 8], out = f32[4])
// qdbg: expect out ~ f32[1, 0.5, 0.25, 0.125] ulp 2
.version 8.0
.target sm_75
.address_size 64
.visible .entry inverse(.param .u64 x, .param .u64 out)
{
.reg .f32 %f<2>; .reg .b32 %r<2>; .reg .b64 %d<5>;
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [out]; mov.u32 %r0, %tid.x;
mul.wide.u32 %d2, %r0, 4; add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2;
ld.global.f32 %f0, [%d0]; rcp.approx.f32 %f1, %f0; st.global.f32 [%d1], %f1;
ret;
}
"""
STORE = "st.global.u32 [%d1], %r5;"
LIMIT = 100_000


def nudge(array: str, index: int, by: int) -> Callable[[str, Arrays], None]:
    """Adds to the bits of a 32-bit element after every launch that has such an array."""

    def alter(_kernel: str, arrays: Arrays) -> None:
        if array in arrays:
            arrays[array].view("<i4")[index] += by

    return alter


def compared(folder: Path, text: str, driver: FakeDriver) -> Compared:
    """The first launch of a PTX text, on both."""
    path = folder / "k.ptx"
    path.write_text(text)
    return compare_launch(prepare(path, LaunchOptions(), None).bound, CudaGpu(driver, 0.05), LIMIT)


def test_all_kinds_of_parameters(tmp_path: Path) -> None:
    """Three elements of each array and the module's variable; the fake's own arrays say what it computed."""
    left: list[list[int]] = []
    driver = FakeDriver(lambda kernel, arrays: left.append(arrays["out"].view("<i4").tolist()))
    result = compared(tmp_path, PARAMETERS, driver)
    assert left == [[4, 7, 10]]
    assert (result.same, result.elements, result.differing) == (True, 3 + 3 + 1, 0)


@pytest.mark.parametrize("path", ["dot.cu", "matmul/matmul.cu", "reduction/dynamic_shared.cu"])
def test_kernels_of_the_suite(path: str) -> None:
    """What the driver is told to run is the launch: its results are what the file expects."""
    source = prepare(KERNELS / path, LaunchOptions(), None).source
    for launch in parse_launches(source.text, path):
        bound = bind(source, launch)
        results: Arrays = {}
        gpu = CudaGpu(FakeDriver(lambda kernel, arrays, keep=results: keep.update(arrays)))  # type: ignore[misc]
        assert compare_launch(bound, gpu, LIMIT).same
        assert bound.expectations
        names = source.parameter_names[bound.kernel.name]  # which the PTX by itself does not say
        for expectation in bound.expectations:
            found = results[f"param_{names.index(expectation.name)}"].view(expectation.values.dtype)
            assert found.tolist() == expectation.values.tolist()


def test_a_difference_is_found(tmp_path: Path) -> None:
    result = compared(tmp_path, PARAMETERS, FakeDriver(nudge("out", 1, -2)))
    assert (result.same, result.differing, result.wrong) == (False, 1, 1)
    assert result.first == Difference("out", 1, "5 (0x00000005)", "7 (0x00000007)")


@pytest.mark.parametrize(("by", "wrong"), [(0, 0), (2, 0), (3, 1), (-3, 1)])
def test_a_distance_that_the_file_allows(tmp_path: Path, by: int, wrong: int) -> None:
    result = compared(tmp_path, RECIPROCAL, FakeDriver(nudge("out", 2, by)))
    assert (result.differing, result.wrong) == (int(by != 0), wrong)
    assert result.same is (wrong == 0)


@pytest.mark.parametrize(("by", "wrong"), [(0, 0), (1, 0), (4, 1)])
def test_an_instruction_by_itself(tmp_path: Path, by: int, wrong: int) -> None:
    """rcp.approx.f32: 1 ulp (PTX ISA, "rcp"); element 5 is 1 / 1, exact, in front of larger steps."""
    path = tmp_path / "k.ptx"
    path.write_text(RECIPROCAL)
    module = prepare(path, LaunchOptions(), None).source.ptx
    ((name, instruction),) = approximate(module).items()
    assert name == "rcp.approx.f32"
    result = compare_instruction(instruction, module, CudaGpu(FakeDriver(nudge("out", 5, by))))
    assert (result.elements, result.differing, result.wrong) == (1024, int(by != 0), wrong)


@pytest.mark.parametrize("name", ["div.full.f32", "ex2.approx.f16x2", "tanh.approx.bf16", "rsqrt.approx.f64"])
def test_instructions_of_all_types(tmp_path: Path, name: str) -> None:
    """The kernel around an instruction is PTX that runs, whatever its type and number of operands."""
    type_ = name.rpartition(".")[2]
    register = {"f32": ".f32", "f64": ".f64", "f16x2": ".b32", "bf16": ".b16"}[type_]
    sources = "%x1, %x2" if name.startswith("div") else "%x1"
    path = tmp_path / "k.ptx"
    text = RECIPROCAL.replace(".reg .f32 %f<2>;", f".reg .f32 %f<2>; .reg {register} %x<3>;")
    path.write_text(text.replace("rcp.approx.f32 %f1, %f0;", f"mov.f32 %f1, %f0; {name} %x0, {sources};"))
    module = prepare(path, LaunchOptions(), None).source.ptx
    result = compare_instruction(approximate(module)[name], module, CudaGpu(FakeDriver()))
    assert (result.same, result.elements) == (True, 1024)


def test_a_launch_that_traps_is_not_tried(tmp_path: Path) -> None:
    driver = FakeDriver()
    result = compared(tmp_path, PARAMETERS.replace("out = i32[3]", "out = i32[2]"), driver)
    assert result.same is None
    assert "outside every array" in str(result.skipped)
    assert driver.launches == []


@pytest.mark.parametrize(
    ("statuses", "says"),
    [
        ((Status.CUDA_ERROR_NOT_READY, Status.CUDA_ERROR_ILLEGAL_ADDRESS), "the launch: illegal address"),
        ((Status.CUDA_ERROR_NOT_READY,) * 10_000, "did not end within 0.05 s"),
    ],
)
def test_an_error_on_the_gpu(tmp_path: Path, statuses: tuple[Status, ...], says: str) -> None:
    """It is no agreement, and the GPU is made ready for the next launch."""
    driver = FakeDriver(statuses=statuses)
    result = compared(tmp_path, PARAMETERS, driver)
    assert (result.same, driver.resets) == (False, 1)
    assert says in str(result.error)
    driver._statuses.clear()
    assert compared(tmp_path, PARAMETERS, driver).same


def test_no_device() -> None:
    with pytest.raises(NoGpu, match="cuInit: no device"):
        CudaGpu(FakeDriver(present=False))


# -- the command -------------------------------------------------------------------------------------------


def install(monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    """Make `cuda.bindings.driver` something else."""
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)


def command(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["gpu-check", *map(str, arguments)])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "inverse.ptx").write_text(RECIPROCAL)
    (tmp_path / "k" / "mix.ptx").write_text(PARAMETERS)
    return tmp_path


def test_report(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    install(monkeypatch, FakeDriver(nudge("out", 0, 1)))
    assert command(folder / "k", "-o", folder / "report.json") == Exit.MISMATCH
    out, err = capsys.readouterr()
    report = json.loads((folder / "report.json").read_text())
    assert (report["device"], report["same"]) == (NAME.decode(), False)
    assert (report["compute_capability"], report["driver"]) == ("9.0", "13.1")
    inverse, mix = report["launches"]
    assert (inverse["same"], inverse["differing"], inverse["error"]) == (True, 1, None)
    assert inverse["approximate"] == {"rcp.approx.f32": "1 ulp"}
    assert (mix["same"], mix["wrong"], mix["status"]) == (False, 1, 1)
    (probe,) = report["instructions"]
    assert (probe["what"], probe["elements"]) == ("rcp.approx.f32", 1024)
    assert "DIFFERENT" in out
    assert err.startswith(f"qdbg: {folder / 'k' / 'mix.ptx'} launch 1: out[0] is 5")
    assert err.startswith(f"qdbg: {report['error']}")


def test_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    install(monkeypatch, FakeDriver())
    assert command("k", "--json") == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["same"], err) == (True, "")
    assert json.loads((folder / "gpu-check.json").read_text()) == report


def test_a_file_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "k" / "broken.ptx").write_text("no PTX")
    install(monkeypatch, FakeDriver())
    assert command(folder / "k", "-o", folder / "report.json") == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1
    launches = json.loads((folder / "report.json").read_text())["launches"]
    assert [entry["same"] for entry in launches] == [None, True, True]


def test_without_a_driver(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The binding is there; it raises when it looks for the driver's library."""
    driver = ModuleType("cuda.bindings.driver")

    def version() -> None:
        raise RuntimeError("libcuda.so.1 is not here")

    driver.cuDriverGetVersion = version  # type: ignore[attr-defined]
    install(monkeypatch, driver)
    assert command(folder / "k") == Exit.UNSUPPORTED
    err = capsys.readouterr().err
    assert err.startswith("qdbg: no NVIDIA driver can be used here (it is not installed)")
    assert err.count("\n") == 1


def test_without_the_binding(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert command(folder / "k") == Exit.UNSUPPORTED
    assert "cuda-bindings" in capsys.readouterr().err
