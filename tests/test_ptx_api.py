"""PTX as a library: the README's example, arguments, results, stepping and looking."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from ptx_runner import HEADER, REGISTERS

from qdbg.runtime import (
    Fault,
    Kernels,
    LaunchError,
    LimitReached,
    PtxError,
    load_kernels,
    load_ptx,
)

ROOT = Path(__file__).parents[1]


def kernels(parameters: str, body: str, before: str = "") -> Kernels:
    """A kernel `k`; %r0 is its thread number."""
    opening = f"{HEADER}{before}.visible .entry k({parameters}) {{ {REGISTERS} mov.u32 %r0, %tid.x;"
    return load_ptx(f"{opening}\n{body}\n}}\n", "k.ptx")


#: Adds the scalar `add` to each element of `data`.
ADD = (
    ".param .u64 data, .param .u32 add",
    """ld.param.u64 %d1, [data]; mad.wide.u32 %d2, %r0, 4, %d1; ld.global.u32 %r1, [%d2];
    ld.param.u32 %r2, [add]; add.u32 %r3, %r1, %r2; st.global.u32 [%d2], %r3; ret;""",
)


def test_the_example_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    section = re.search(r"## PTX from Python\n(.*?)\n## ", text, re.DOTALL)
    assert section is not None
    example = doctest.DocTestParser().get_doctest(section.group(1), {}, "README.md", "README.md", 0)
    results = doctest.DocTestRunner().run(example)
    assert results.attempted == len(example.examples) > 5
    assert results.failed == 0


def test_arrays_of_any_shape_get_what_the_kernel_wrote() -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    kernels(*ADD).launch("k", 1, 6, data, -1).run()
    assert data.tolist() == [[-1, 0, 1], [2, 3, 4]]
    strided = np.zeros((4, 2), np.uint32)
    kernels(*ADD).launch(None, (1, 2), (2, 1, 1), strided[:, 1], np.uint32(7)).run()
    assert strided.tolist() == [[0, 14], [0, 14], [0, 0], [0, 0]], "two blocks add 7 each"


def test_one_array_given_twice_is_one_piece_of_memory() -> None:
    body = """ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; st.global.u32 [%d1], 5; ld.global.u32 %r1, [%d2];
        st.global.u32 [%d2+4], %r1; ret;"""
    both = np.zeros(2, np.uint32)
    found = kernels(".param .u64 a, .param .u64 b", body)
    found.launch("k", 1, 1, both, both).run()
    assert both.tolist() == [5, 5]
    first, second = np.zeros(2, np.uint32), np.zeros(2, np.uint32)
    found.launch("k", 1, 1, first, second).run()
    assert (first.tolist(), second.tolist()) == ([5, 0], [0, 0])


def test_scalars_and_structs_take_the_parameters_type() -> None:
    body = """ld.param.u64 %d1, [out]; ld.param.f32 %f1, [f]; st.global.f32 [%d1], %f1; ld.param.f64 %g1, [g];
        st.global.f64 [%d1+8], %g1; ld.param.s16 %r1, [h]; st.global.u32 [%d1+4], %r1;
        ld.param.u32 %r2, [s+4]; st.global.u32 [%d1+16], %r2; ret;"""
    parameters = ".param .u64 out, .param .f32 f, .param .f64 g, .param .s16 h, .param .align 4 .b8 s[8]"
    out = np.zeros(5, np.uint32)
    launch = kernels(parameters, body).launch("k", 1, 1, out, 0.1, 0.1, -2, np.array([3, 9], np.int32))
    launch.run()
    assert out[:1].view(np.float32)[0] == np.float32(0.1)
    assert out[2:4].view(np.float64)[0] == 0.1
    assert out[[1, 4]].tolist() == [0xFFFFFFFE, 9]
    launch = kernels(parameters, body).launch("k", 1, 1, out, np.float32("nan"), float("inf"), 0, b"12345678")
    launch.run()
    assert out[:1].tolist() == [np.array(np.nan, np.float32).view(np.uint32).item()], "NaN as numpy has it"
    assert out[4:].tobytes() == b"5678"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), r"k takes 2 arguments \(data, add\), not 0"),
        ((np.zeros(1, np.int32), 1.5), "argument add: 1.5 is no integer"),
        ((np.zeros(1, np.int32), 1 << 32), "argument add: .* is out of range"),
        ((np.zeros(1, np.int32), "x"), "argument add: str is no number"),
        ((np.zeros(1, np.int32), np.zeros(2, np.int32)), "argument add: .*not a pointer"),
    ],
)
def test_arguments_that_do_not_fit(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(LaunchError, match=sentence):
        kernels(*ADD).launch("k", 1, 1, *arguments)  # type: ignore[arg-type]


def test_grids_and_kernels_that_do_not_fit() -> None:
    data = np.zeros(1, np.int32)
    with pytest.raises(LaunchError, match="1024 threads"):
        kernels(*ADD).launch("k", 1, (64, 32), data, 1)
    with pytest.raises(LaunchError, match="there is no kernel f"):
        kernels(*ADD).launch("f", 1, 1, data, 1)
    with pytest.raises(PtxError, match=r"^k\.ptx:5: "):
        kernels(".param .u64 data", "add.u32 %r1;")


def test_a_launch_stops_at_a_fault_with_what_was_written() -> None:
    data = np.zeros(3, np.int32)
    launch = kernels(*ADD).launch("k", 1, 5, data, 4)
    with pytest.raises(Fault, match=r"k\.ptx:5: thread \(3, 0, 0\) of block \(0, 0, 0\) loads from global"):
        launch.run()
    assert data.tolist() == [0, 0, 0], "the load faulted"
    assert launch.thread(3).location is not None
    with pytest.raises(LimitReached):
        kernels(".param .u64 data", "top: bra top;").launch("k", 1, 1, data).run(50)


def test_a_read_only_array_may_be_an_input_and_nothing_else() -> None:
    data = np.arange(2, dtype=np.int32)
    data.flags.writeable = False
    kernels(*ADD).launch("k", 1, 2, data, 0).run()
    with pytest.raises(ValueError, match="read-only"):
        kernels(*ADD).launch("k", 1, 2, data, 1).run()


def test_a_thread_inside_a_call() -> None:
    before = """.func (.param .b32 r) twice(.param .b32 n) { .reg .b32 %r<3>; .reg .s32 %s; .reg .pred %p;
        ld.param.b32 %r1, [n];
        neg.s32 %s, %r1; setp.eq.u32 %p, %r1, 7; add.u32 %r2, %r1, %r1;
        st.param.b32 [r], %r2; ret; }\n"""
    body = """ { .param .b32 a; .param .b32 b; st.param.b32 [a], 7;
        call (b), twice, (a);
        ld.param.b32 %r5, [b]; }
        bar.sync 0; ret;"""
    launch = kernels("", body, before).launch("k", (2, 1, 1), 40)
    thread = launch.thread(33)
    while not thread.calls or thread.value("%r2") != 14:
        assert launch.step() is not None
    assert thread.location is not None
    assert thread.location.function == "twice"
    assert [call.text for call in thread.calls] == ["call (b), twice, (a);"]
    assert thread.registers == {"%r0": 0, "%r1": 7, "%r2": 14, "%s": -7, "%p": True}
    assert (thread.waiting, thread.exited, launch.block) == (False, False, (0, 0, 0))
    launch.run()
    assert (thread.exited, launch.finished) == (True, True)
    last = launch.thread(39)
    assert (last.exited, last.location, last.value("%r5"), launch.block) == (True, None, 14, (1, 0, 0))
    with pytest.raises(IndexError, match="no thread"):
        launch.thread(40)


def test_a_thread_at_a_barrier_and_shared_memory() -> None:
    body = """.shared .align 4 .u32 cell; setp.ne.u32 %p1, %r0, 1; @%p1 bra on; st.shared.u32 [cell], 9;
    on: bar.sync 0; ret;"""
    launch = kernels("", body).launch("k", 1, 64)
    while not launch.thread(1).waiting:
        launch.step()
    assert not launch.thread(63).waiting
    assert launch.shared.view(np.uint32).tolist() == [9]


def test_a_cuda_file(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__device__ int seen;\n__global__ void k(int *a) { seen = a[0]++; }\n")
    found = load_kernels(tmp_path / "k.cu")
    data = np.array([41], np.int32)
    launch = found.launch("k", 1, 1, data)
    launch.run()
    assert (found.names, data.tolist(), launch.array("seen").tolist()) == (("k",), [42], [41])
