"""CUDA files to modules: compilers, host code, names, and everything that can be wrong with a file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qdbg.compiler import cuda
from qdbg.compiler.cuda import CompileError, compile_cuda, compiler_name
from qdbg.compiler.host import blank_host_code, device_source, kernel_parameters
from qdbg.compiler.mangling import display_name
from qdbg.compiler.ptx.ir import PtxError
from qdbg.compiler.source import Source, SourceError, load_module

DOT = Path(__file__).parents[1] / "kernels" / "dot.cu"

needs_compiler = pytest.mark.skipif(compiler_name() is None, reason="no CUDA compiler on this machine")
needs_nvrtc = pytest.mark.skipif("NVRTC" not in (compiler_name() or ""), reason="no NVRTC on this machine")

HOST = """\
#include <cstdio>
#include <vector>
#include <stdint.h>
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include "local.h"
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { puts("no"); exit(1); } } while (0)
#define DEVICE __device__ __forceinline__
using namespace std;
static const int N = 1024;
const std::string name = "x";
std::vector<int> everything;
float *h_a;
struct Timer { std::vector<float> t; void start() { t.push_back(1); } };
struct Times { int k; Times(int k) : k(k) {} __device__ int operator()(int x) const { return x * k; } };
DEVICE int twice(int x) { return 2 * x; }
void launch(std::vector<int> &v);
template <typename T> T sum(const std::vector<T> &v) { T s = 0; for (auto x : v) s += x; return s; }
template <typename T, int K> __global__ void scale(T *x, int n /* count */)
{
    int i = threadIdx.x;
    if (i < n) x[i] = x[i] * K + twice(i) + half_of(i);
}
__global__ void fill(int *out, uint32_t value) { out[threadIdx.x] = value + N; }
extern "C" void solve(int *p, int n) { fill<<<1, n>>>(p, 3); }
int main(int argc, char **argv)
{
    std::vector<int> h(N, 1); int *d; CHECK(cudaMalloc(&d, N * sizeof(int)));
    scale<int, 3><<<1, 32>>>(d, 32); fill<<<dim3(1), 32, 0, 0>>>(d, 7u);
    printf("naïve %d", sum(h)); return 0;
}
"""
LOCAL = """\
#pragma once
#include <string>
inline std::string hello() { return "hi"; }
__device__ int half_of(int x) { return x / 2; }
"""


@pytest.fixture
def host_file(tmp_path: Path) -> Path:
    (tmp_path / "local.h").write_text(LOCAL)
    path = tmp_path / "host.cu"
    path.write_text(HOST, encoding="utf-8")
    return path


def write(folder: Path, text: str, name: str = "k.cu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises((SourceError, CompileError, PtxError)) as error:
        load_module(path)
    return str(error.value)


# -- compiling --------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("opt", [3, 1, 0])
def test_dot_at_every_level(opt: int) -> None:
    source = load_module(DOT, opt)
    (kernel,) = source.ptx.kernels
    assert source.display_names == {kernel.name: "dot"}
    assert source.parameter_names == {kernel.name: ("a", "b", "out", "n")}
    assert source.cuda_lines is not None
    lines = [source.cuda_lines[line - 1] for one in kernel.body if (line := source.cuda_line(one))]
    multiplies = [
        source.cuda_line(one) for one in kernel.body if one.opcode in ("mad", "mul") and one.has("lo")
    ]
    wanted = next(n for n, line in enumerate(source.cuda_lines, 1) if "acc += a[k] * b[k]" in line)
    assert wanted in multiplies
    assert any("__syncthreads" in line for line in lines)


@needs_nvrtc
def test_lower_levels_keep_what_a_person_steps() -> None:
    """A store to a local that is never read survives only without optimisation."""
    sizes = [len(load_module(DOT, opt).ptx.kernels[0].body) for opt in (3, 1, 0)]
    assert sizes[0] < sizes[1]
    assert sizes[0] < sizes[2]


@needs_nvrtc
def test_products_are_not_contracted(tmp_path: Path) -> None:
    path = write(tmp_path, "__global__ void k(float *a) { a[0] = a[1] * a[2] + a[3]; }")
    assert not any(one.opcode == "fma" for one in load_module(path).ptx.kernels[0].body)


@needs_nvrtc
def test_a_file_with_host_code_opens(host_file: Path) -> None:
    source = load_module(host_file)
    names = {source.display_names[kernel.name]: kernel for kernel in source.ptx.kernels}
    assert set(names) == {"fill", "scale<int, 3>"}  # the template as the host code launches it
    assert source.parameter_names[names["scale<int, 3>"].name] == ("x", "n")
    assert source.parameter_names[names["fill"].name] == ("out", "value")
    lines = {source.cuda_line(one) for one in names["scale<int, 3>"].body} - {None}
    assert lines <= {16, 19, 20, 21, 22, 23}  # line 4 of local.h, inlined, is not a line of this file


@needs_nvrtc
def test_what_only_newer_targets_have_compiles_for_the_first_that_has_it(tmp_path: Path) -> None:
    text = "__global__ void k(int *a) { a[0] = __reduce_add_sync(~0u, a[1]); }\n"
    ptx = compile_cuda(write(tmp_path, text))
    assert ".target sm_80" in ptx
    assert "redux.sync.add.s32" in ptx
    assert ".target sm_75" in compile_cuda(DOT)
    with pytest.raises(CompileError) as error:  # not line 1, which is right for a newer target
        compile_cuda(write(tmp_path, text + "__global__ void g(int *a) { a[0] = b; }\n"))
    assert (error.value.line, error.value.cause) == (2, 'identifier "b" is undefined')


@needs_nvrtc
@pytest.mark.skipif(sys.platform != "linux", reason="NVRTC has 128-bit integers on Linux only")
def test_integers_of_128_bits(tmp_path: Path) -> None:
    text = "__global__ void k(unsigned long long *a) { a[0] = (unsigned __int128)a[1] * a[2] >> 64; }\n"
    assert "mul.hi.u64" in compile_cuda(write(tmp_path, text))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_nvcc_stands_in_for_nvrtc(host_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_nvrtc", lambda: None)
    assert compiler_name() == "nvcc"
    for opt in (3, 1, 0):
        assert ".entry _Z3dotPKiS0_Pii(" in compile_cuda(DOT, opt)
    assert ".entry _Z4fillPij(" in compile_cuda(host_file)
    with pytest.raises(CompileError) as error:
        compile_cuda(write(host_file.parent, "__global__ void k(int *a)\n{ a[0] = b; }\n"))
    assert (error.value.line, error.value.cause) == (2, 'identifier "b" is undefined')


def test_without_any_compiler_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_nvrtc", lambda: None)
    monkeypatch.setenv("PATH", "")
    assert compiler_name() is None
    with pytest.raises(CompileError, match="no CUDA compiler on this machine: install nvidia-cuda-nvrtc"):
        compile_cuda(DOT)


@needs_compiler
def test_compiling_is_silent_and_needs_no_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from qdbg.compiler.source import load_module;"
        f"load_module(Path({str(DOT)!r})); sys.exit('torch' in sys.modules or 'textual' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


# -- compiler errors --------------------------------------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("__global__ void k(int *a)\n{\n    a[0] = b;\n}\n", 3, 'identifier "b" is undefined'),
        ("__global__ void k(int *a)\n{\n    a[0] = 1\n}\n", 4, 'expected a ";"'),
        (
            "int main()\n{\n}\n__global__ void k(int *a)\n{\n    foo();\n}\n",
            6,
            'identifier "foo" is undefined',
        ),
        ('#include "gone.h"\n__global__ void k(int *a) {}\n', 1, 'cannot open source file "gone.h"'),
        ("\n#include <gone.h>\n__global__ void k(gone *a) {}\n", 2, 'cannot open source file "gone.h"'),
    ],
)
def test_errors_are_the_compilers_with_the_users_lines(
    tmp_path: Path, text: str, line: int, cause: str
) -> None:
    path = write(tmp_path, text)
    found = refusal(path).splitlines()
    assert found[0] == f"{path}:{line}: {cause}"
    assert f"{path}({line})" in found[1]  # NVRTC's own words follow


@needs_nvrtc
def test_an_error_in_a_local_header_names_the_header(tmp_path: Path) -> None:
    write(tmp_path, "#pragma once\n__device__ int f() { return nothing; }\n", "part.h")
    path = write(tmp_path, '#include "part.h"\n__global__ void k(int *a) { a[0] = f(); }\n')
    assert refusal(path).splitlines()[0].endswith('part.h:2: identifier "nothing" is undefined')


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(CompileError, match="the optimisation level is 3, 1 or 0, not 2"):
        compile_cuda(DOT, 2)


# -- files that cannot be used ----------------------------------------------------------------------


def test_files_that_are_none(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone.cu") == f"{tmp_path / 'gone.cu'}: there is no such file"
    assert refusal(tmp_path).startswith(f"{tmp_path}: this is a directory")
    assert refusal(write(tmp_path, " \n\n")).endswith("the file is empty")
    assert refusal(write(tmp_path, "__global__ void k() {}", "k.txt")).endswith("ends in .cu or .ptx")
    assert "zero bytes" in refusal(write(tmp_path, "a\0b"))
    path = tmp_path / "latin.cu"
    path.write_bytes(b"// ok\n// caf\xe9\n")
    assert refusal(path) == f"{path}:2: this is not UTF-8 text; save the file as UTF-8"


@needs_nvrtc
def test_files_without_a_kernel(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "int main() { return 0; }\n")).endswith("write a __global__ function")
    template = "template <class T> __global__ void k(T *a) {}\n"
    assert refusal(write(tmp_path, template)).endswith("a template needs an explicit instantiation")
    ptx = ".version 8.0\n.target sm_75\n.address_size 64\n"
    assert "no kernel" in refusal(write(tmp_path, ptx, "k.ptx"))


def test_ptx_files_open_directly(tmp_path: Path) -> None:
    ptx = ".version 8.0\n.target sm_75\n.address_size 64\n"
    path = write(tmp_path, ptx + ".entry add(.param .u64 out, .param .u32 add_param_1) { ret; }", "k.ptx")
    source: Source = load_module(path)
    assert source.cuda_lines is None
    assert source.parameter_names == {"add": ("out", "param_1")}
    assert source.cuda_line(source.ptx.kernels[0].body[0]) is None
    broken = write(tmp_path, ptx + ".entry add() {\n oops\n}\n", "broken.ptx")
    assert refusal(broken).startswith(f"{broken}:")


# -- host code and names ----------------------------------------------------------------------------


def test_blanking_keeps_device_code_and_every_line() -> None:
    blanked = blank_host_code(HOST)
    before, after = HOST.split("\n"), blanked.split("\n")
    assert [len(line.encode()) for line in before] == [len(line.encode()) for line in after]
    kept = {number for number, line in enumerate(after, 1) if line.strip(" ;")}
    assert kept == {*range(1, 11), 15, 16, *range(19, 25)}
    words = " ".join(after[14].split())
    assert words == "struct Times { int k; __device__ int operator()(int x) const { return x * k; } };"


def test_blanking_leaves_pure_device_code_alone() -> None:
    text = DOT.read_text()
    assert blank_host_code(text) == text
    features = (Path(__file__).parent / "data" / "features.cu").read_text()
    assert blank_host_code(features) == features


def test_what_nvcc_defines_without_an_include(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "#define M_PI 3\n#include <cmath>\n"
        "__global__ void k(float *a, int *b) { a[0] = INFINITY; a[1] = NAN; b[0] = INT_MAX; }\n"
    )
    stored = [o.text for o in load_module(path).ptx.kernels[0].body if o.opcode in ("mov", "st")]
    text = "\n".join(stored)
    assert "2139095040" in text or "0f7F800000" in text  # the bits of infinity
    assert "2147483647" in text


def test_headers_and_instantiations(host_file: Path) -> None:
    found = device_source(HOST, host_file.parent, [])
    assert found.instantiations == ("scale<int, 3>",)
    assert found.missing == ()
    assert found.headers["thrust/device_vector.h"] == ""
    assert "half_of" in found.headers["local.h"]
    assert "hello" not in found.headers["local.h"]
    assert "uint32_t" in found.headers["stdint.h"]
    assert device_source("#include <boost/x.h>\n", host_file.parent, []).missing == ("boost/x.h",)


def test_parameter_names_of_every_declarator() -> None:
    text = """
    extern "C" __global__ void a(const int *__restrict__ x, int (*rows)[4], float y[], P &r, int n = 3) {}
    namespace n { template <class T> __global__ void __launch_bounds__(128) b(T, unsigned long n) {} }
    __device__ int not_a_kernel(int q) { return q; }
    """
    assert kernel_parameters(text) == [("a", ("x", "rows", "y", "r", "n")), ("b", (None, "n"))]


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        # The plain names are those of GNU c++filt, without parameters, return types and unnamed namespaces.
        ("dot", "dot"),
        ("_Z3dotPKiS0_Pii", "dot"),
        ("_ZL3dotPKi", "dot"),
        ("_ZN1n1m1kEi", "n::m::k"),
        ("_Z2tkIfLi3EEvPT_", "tk<float, 3>"),
        ("_Z2tkIjLin4ELb1EEvPT_", "tk<unsigned int, -4, true>"),
        ("_Z2ttI1VIiEEvS0_IT_E", "tt<V<int>>"),
        ("_Z2ttIPKfEvT_", "tt<float const*>"),
        ("_ZN12_GLOBAL__N_14anonEPi", "anon"),
        ("_ZN36_GLOBAL__N__00000000_4_x_cu_b1b88c0c4anonEPi", "anon"),
        ("_Z1kIDv4_fEvT_", "k<...>"),
        ("_Zoops", "_Zoops"),
        ("_Z99short", "_Z99short"),
        ("_Z", "_Z"),
    ],
)
def test_display_names(mangled: str, plain: str) -> None:
    assert display_name(mangled) == plain
