"""What a text of CUDA finds that nvcc gives every program: names of integers, headers of narrow floats."""

import pytest
import tilelang
import tilelang.language as T
from helpers import source

CHIPS = ["cuda -arch=sm_80", "cuda -arch=sm_90"]

WORDS = """
#include <cstdint>
template <typename T1, typename T2> __device__ void decode(T1* from, T2* to, const int n) {
  uint* words = reinterpret_cast<uint*>(to);
  const uint32_t packed = *reinterpret_cast<uint32_t*>(from);
  static constexpr uint either = (0xf0 & 0xcc) | 0xaa;
  for (int i = 0; i < n / 2; i++) {
    asm volatile("lop3.b32 %0, %1, %2, %3, %4;\\n"
                 : "=r"(words[i]) : "r"(packed >> (4 * i)), "n"(0x000f000f), "n"(0x64006400), "n"(either));
    asm volatile("sub.f16x2 %0, %1, %2;\\n" : "=r"(words[i]) : "r"(words[i]), "r"(0x64006400));
  }
}
"""


def decoder(text):
    @T.prim_func
    def main(B: T.Tensor((32, 32), "int8"), O: T.Tensor((32, 64), "float16")):
        with T.Kernel(32, threads=8) as row:
            T.import_source(text)
            t = T.get_thread_binding()
            packed, found = T.alloc_local((4,), "int8"), T.alloc_local((8,), "float16")
            for v in T.vectorized(4):
                packed[v] = B[row, t * 4 + v]
            T.call_extern("handle", "decode", T.address_of(packed[0]), T.address_of(found[0]), 8)
            for v in T.vectorized(8):
                O[row, t * 8 + v] = found[v]

    return main


@pytest.mark.parametrize("target", CHIPS)
def test_a_text_finds_the_names_that_nvcc_gives_it(target):
    text = source(decoder(WORDS), target)
    assert "typedef unsigned uint;" in text and "typedef unsigned uint32_t;" in text
    own = WORDS.replace("template", "using uint = unsigned int;\ntypedef unsigned int uint32_t;\ntemplate", 1)
    assert "typedef unsigned uint;" not in source(decoder(own), target)


def test_a_text_of_half_is_given_its_header(tmp_path):
    """And pointers to its type. No wheel of NVRTC has the header: this one is the test's."""
    (tmp_path / "cuda_fp16.h").write_text("struct half { unsigned short bits; };\n")
    text = WORDS.replace("}\n}", "}\n  half first = *to;\n  to[0] = first;\n}")
    kernel_ = tilelang.compile(decoder(text), target=CHIPS[0], compile_flags=[f"-I{tmp_path}"])
    assert "#include <cuda_fp16.h>" in kernel_.get_kernel_source()
    assert "decode(&packed[0], (half*)&found[0], 8)" in kernel_.get_kernel_source()


def test_a_header_that_is_not_there():
    with pytest.raises(tilelang.CompileError, match="rejects the program") as caught:
        tilelang.compile(decoder("#include <no_such.h>\n" + WORDS), target=CHIPS[0])
    assert '`pip install nvidia-cuda-runtime`; or name their folder by compile_flags=["-I…"]' in str(
        caught.value
    )


TWICE = """
extern "C" __global__ void twice(half_t* A) {
  uint i = blockIdx.x * 32 + threadIdx.x;
  A[i] = half_t(float(A[i]) * 2.f);
}
"""


@pytest.mark.parametrize("own", [False, True])
def test_a_kernel_of_text_finds_half_t(own):
    """Ours, or the one that it defines."""
    defined = "struct half_t { short bits; half_t() = default; __device__ half_t(float x) : bits(x) {}\n"
    defined += "  __device__ operator float() { return bits; } };"
    text = defined + TWICE if own else TWICE

    @T.prim_func
    def main(A: T.Tensor((64,), "float16")):
        T.CUDASourceCodeKernel(2, threads=32, source_code_or_path=text, entry_name="twice")

    assert source(main, CHIPS[0]).count("struct half_t") == 1
