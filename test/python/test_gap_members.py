"""Members of published classes: of kernels, of what jit and autotune give, tuners, profilers, policies."""

import inspect
import json

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import random
from tilelang.cuda import intrinsics

SUPPLY = tilelang.TensorSupplyType


def factory(N=64, block=32):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1

    return main


def eager(A, by: float = 1.0, block: int = 32):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] + by
    return B


# ── kernels ───────────────────────────────────────────────────────────────────────────────────────────


def test_members_of_a_kernel():
    kernel = tilelang.compile(factory(), out_idx=[-1], target="cpu")
    assert kernel.out_idx == [1] and len(kernel.params) == 2 and kernel.config is None
    assert kernel.latency is None and kernel.ref_latency is None and "cpu" in str(kernel.target)
    assert kernel.kernel_source == kernel.get_kernel_source() and isinstance(kernel.host_source, str)
    assert kernel.get_host_source() == kernel.host_source
    assert kernel.prim_func.script() == factory().script()
    assert hasattr(kernel, "execution_backend_spec") and kernel.artifact is not None
    assert np.array_equal(kernel.torch_function(random(64)), random(64) + 1)
    assert kernel.update_tuner_result(1.0, {"block": 32}, 2.0) is not None
    assert (kernel.latency, kernel.config, kernel.ref_latency) == (1.0, {"block": 32}, 2.0)
    assert kernel.get_tuner_result() is not None


def test_resources_of_a_kernel():
    kernel = tilelang.compile(factory(), target="cuda -arch=sm_90")
    assert isinstance(kernel.n_max_threads, int) and 32 <= kernel.n_max_threads <= 1024
    try:
        assert kernel.n_regs > 0 and kernel.n_spills == 0 and kernel.resource_usage
    except Exception as error:  # without the programs that read a binary
        assert any(word in str(error) for word in ("cuobjdump", "nvdisasm", "device", "CUDA"))


def test_a_kernel_of_a_function():
    made = tilelang.JITKernel.from_tilelang_function(factory(), out_idx=[1], target="cpu")
    assert np.array_equal(made(random(64)), random(64) + 1)
    assert list(inspect.signature(tilelang.JITKernel.from_database).parameters)[:8] == [
        "func", "host_kernel_source", "device_kernel_source", "kernel_lib_path", "params", "target",
        "target_host", "out_idx"]  # fmt: skip


def test_a_kernel_of_a_library(tmp_path):
    kernel = tilelang.compile(factory(), out_idx=[1], target="cpu")
    path = tmp_path / "kernel_lib.so"
    kernel.export_library(kernel_file=str(path))
    again = tilelang.JITKernel.from_database(
        func=factory(), host_kernel_source=kernel.host_source, device_kernel_source=kernel.kernel_source,
        kernel_lib_path=str(path), params=kernel.params, target="cpu", target_host=None, out_idx=[1],
        execution_backend="auto", pass_configs=None, compile_flags=None)  # fmt: skip
    assert np.array_equal(again(random(64)), random(64) + 1)


# ── what jit and autotune give ────────────────────────────────────────────────────────────────────────


def test_members_of_a_factory():
    lazy = tilelang.jit(factory, out_idx=[-1], target="cpu", verbose=False, compile_flags=["-O3"],
                        pass_configs={"tl.enable_fast_math": True}, debug_root_path=None,
                        execution_backend="auto")  # fmt: skip
    assert lazy.out_idx == [-1] and lazy.target == "cpu" and lazy.execution_backend == "auto"
    assert lazy.verbose is False and lazy.target_host is None and lazy.debug_root_path is None
    assert lazy.pass_configs == {"tl.enable_fast_math": True} and "-O3" in lazy.compile_flags
    assert lazy.func is factory and list(lazy.signature.parameters) == ["N", "block"]
    assert "T.ceildiv(N, block)" in lazy.func_source
    assert lazy.initialize_jit_mode(64) == "lazy" and lazy.mode == "lazy" and lazy.is_lazy_mode()
    assert lazy.parse_cache_key(64) == lazy.parse_cache_key(64) != lazy.parse_cache_key(96)
    assert hash(lazy.parse_cache_key(64, block=16)) is not None
    assert lazy.get_tir(64).script() == factory(64).script()


def test_members_of_an_eager_function():
    function = tilelang.jit(eager, target="cpu")
    a = random(50)
    assert function.initialize_jit_mode(a) == "eager" and function.mode == "eager"
    assert not function.is_lazy_mode() and list(function.signature.parameters) == ["A", "by", "block"]
    assert function.func.__name__ == "eager" and "T.empty" in function.func_source
    assert function.parse_cache_key(a) != function.parse_cache_key(random(40))
    assert np.array_equal(function(a), a + 1)


def test_members_of_a_tuned_function():
    def reference(a):
        return a + 1

    impl = tilelang.jit(factory, out_idx=[-1], target="cpu")
    tuned = tilelang.autotune(impl, configs={"block": [16, 32]}, warmup=3, rep=4, timeout=50,
                              supply_type=SUPPLY.One, ref_prog=reference, rtol=0.1, atol=0.2,
                              skip_check=False, cache_input_tensors=True)  # fmt: skip
    assert tuned.jit_impl is impl and tuned.configs == {"block": [16, 32]}
    assert (tuned.warmup, tuned.rep, tuned.timeout) == (3, 4, 50) and tuned.supply_type == SUPPLY.One
    assert tuned.ref_prog is reference and (tuned.rtol, tuned.atol) == (0.1, 0.2)
    assert tuned.skip_check is False and tuned.cache_input_tensors is True


def test_members_of_a_tuner(tmp_path, monkeypatch):
    def tunable(block=64):
        return factory(64, block)

    configs = [{"block": 16}, {"block": 32}]
    tuner = tilelang.AutoTuner(tunable, configs)
    assert tuner.fn is tunable and tuner.configs == configs
    tuner.set_compile_args(out_idx=[1], target="cpu")
    tuner.set_profile_args(warmup=1, rep=2, supply_type=SUPPLY.One)
    assert tuner.compile_args.out_idx == [1] and tuner.profile_args.warmup == 1
    assert tuner.profile_args.supply_type == SUPPLY.One and str(tuner.cache_dir)
    tuner.set_kernel_parameters(((), ()), inspect.signature(tunable).parameters)
    keys = [tuner.generate_cache_key({"block": n}, {}) for n in (16, 16, 32)]
    assert isinstance(keys[0], str) and keys[0] == keys[1] != keys[2]
    result = tuner.run(warmup=1, rep=1)
    assert result.config in configs and result.latency > 0 and result.libcode == result.kernel.kernel_source
    assert result.func.script() == factory(64, result.config["block"]).script()
    assert json.dumps(result.config)


def test_members_of_a_profiler():
    kernel = tilelang.compile(factory(), out_idx=[-1], target="cpu")
    profiler = kernel.get_profiler(SUPPLY.Integer)
    assert profiler.supply_type == SUPPLY.Integer and profiler.result_idx == [1]
    assert len(profiler.params) == 2 and profiler.adapter is not None
    assert np.array_equal(profiler(random(64)), random(64) + 1)
    assert profiler.with_default_adapter(profiler.adapter) is profiler


# ── programs ──────────────────────────────────────────────────────────────────────────────────────────


def test_members_of_a_program(capsys):
    program = factory()
    program.show()
    assert "T.prim_func" in capsys.readouterr().out or "main" in program.script()
    marked = program.with_attr("owner", "me").with_attrs({"speed": 3})
    assert marked.attrs["owner"] == "me" and marked.attrs["speed"] == 3 and "owner" not in program.attrs
    assert "owner" not in marked.without_attr("owner").attrs
    assert marked.attrs["global_symbol"] == "main"
    assert [program.buffer_map[p].name for p in program.params] == ["A", "B"]
    assert [tuple(program.buffer_map[p].shape) for p in program.params] == [(64,), (64,)]
    assert program.body is not None and program.orig_func.__name__ == "main"
    assert program.span is None or "test_gap_members" in str(program.span)
    assert program.ret_type is None or "void" in str(program.ret_type).lower()
    a, b = random(64), np.zeros(64, np.float32)
    tilelang.compile(marked, target="cpu")(a, b)
    assert np.array_equal(b, a + 1)


def test_a_program_for_one_size():
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] + 1

    try:
        fixed = main.specialize({M: 50})
    except tilelang.CompileError as error:  # with what to write instead
        assert "main.specialize" in str(error) and "factory" in str(error)
        return
    kernel = tilelang.compile(fixed, target="cpu")
    a, b = random(50), np.zeros(50, np.float32)
    kernel(a, b)
    assert np.array_equal(b, a + 1)
    with pytest.raises(Exception, match="50"):
        kernel(random(40), np.zeros(40, np.float32))


def test_members_of_buffers():
    seen = {}

    @T.prim_func
    def main(A: T.Tensor((8, 4), "float32"), B: T.StridedTensor((8, 4), (16, 1), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 4), "float32")
            local = T.alloc_fragment((8, 4), "float32")
            seen.update(
                A=(A.scope(), list(A.strides), A.dtype, list(A.shape)),
                tile=tile.scope(),
                local=local.scope(),
                B=list(B.strides),
                same=tile.scope == "shared.dyn",
            )
            T.copy(A, tile)
            for i, j in T.Parallel(8, 4):
                B.vstore([i, j], tile.vload([i, j]) + 1)

    a, b = random(8, 4), np.zeros((8, 16), np.float32)[:, :4]
    for target in ("cpu", "sim:sm_90"):
        tilelang.compile(main, target=target)(a, b)
        assert np.array_equal(b, a + 1)
    assert seen["A"][0] == "global" and seen["A"][2:] == ("float32", [8, 4]) and seen["A"][1] in ([], [4, 1])
    assert seen["tile"] == "shared.dyn" and seen["local"] == "local.fragment" and seen["B"] == [16, 1]


# ── policies, machines, rasterisations ────────────────────────────────────────────────────────────────


def test_members_of_a_policy():
    policy = T.GemmWarpPolicy
    assert [policy(n) for n in range(3)] == [policy.Square, policy.FullRow, policy.FullCol]
    assert int(policy.FullRow) == 1 or policy.FullRow.value == 1
    assert policy.Square.is_square() and policy.FullRow.is_full_row() and policy.FullCol.is_full_col()
    assert not policy.Square.is_full_row() and not policy.FullCol.is_square()
    assert policy.from_warp_partition(4, 1) == policy.FullRow
    assert policy.from_warp_partition(1, 4) == policy.FullCol
    assert policy.from_warp_partition(2, 2) == policy.Square
    assert tuple(policy.FullRow.compute_warp_partition(128, 64, 4)) == (4, 1)
    assert tuple(policy.FullCol.compute_warp_partition(64, 128, 4)) == (1, 4)
    rows, columns = policy.Square.compute_warp_partition(128, 128, 4)
    assert rows * columns == 4
    with pytest.raises(ValueError, match="7"):
        policy(7)


def test_members_of_a_rasterization():
    from tilelang.carver.roller import rasterization

    columns, rows = rasterization.Rasterization2DColumn, rasterization.Rasterization2DRow
    assert rasterization.NoRasterization().get_code() == [] and columns().panel_width == 4
    assert columns(8).panel_width == 8 and rows(panel_width=2).panel_width == 2
    assert "8" in "".join(columns(8).get_code(panel_width=8))


def test_members_of_a_machine():
    from tilelang.carver import arch

    cuda = arch.CUDA("cuda -arch=sm_90")
    shapes = cuda.get_avaliable_tensorintrin_shapes()
    assert shapes and all(len(shape) in (2, 3) and min(shape) >= 8 for shape in shapes)
    assert arch.is_cuda_arch(cuda) and arch.is_hopper_arch(cuda) and arch.has_mma_support(cuda)
    assert not arch.is_cdna_arch(cuda) and not arch.is_ampere_arch(cuda) and not arch.is_volta_arch(cuda)
    assert arch.is_ampere_arch(arch.CUDA("cuda -arch=sm_80"))
    assert arch.is_ada_arch(arch.CUDA("cuda -arch=sm_89"))
    assert arch.is_tensorcore_supported_precision("float16", "float32", cuda)
    assert not arch.is_tensorcore_supported_precision("float16", "int32", cuda)
    assert isinstance(arch.get_arch("cuda -arch=sm_90"), arch.CUDA) and isinstance(cuda, arch.TileDevice)


def test_members_of_an_emitter():
    emitter = intrinsics.TensorCoreIntrinEmitter(
        a_dtype="float16", b_dtype="float16", accum_dtype="float32", a_transposed=False, b_transposed=True,
        block_row_warps=2, block_col_warps=2, warp_row_tiles=32, warp_col_tiles=32, chunk=32)  # fmt: skip
    assert emitter.is_m_first is False and emitter.n_dim in (8, 16)
    abbreviations = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
    assert abbreviations.items() <= emitter.dtype_abbrv.items()
    assert emitter.mma_num_inst_m == 2 and emitter.mma_num_inst_n in (2, 4) and callable(emitter.mma_atom)
    assert (emitter.warp_rows, emitter.M_DIM, emitter.WARP_SIZE) == (2, 16, 32)
    parameters = inspect.signature(intrinsics.TensorCoreIntrinEmitter).parameters
    assert parameters["warp_row_tiles"].default == 8 == parameters["warp_col_tiles"].default
    ladder = intrinsics.TensorCoreIntrinEmitterWithLadderTransform
    assert {"transform_kind_a", "transform_kind_b"} <= set(inspect.signature(ladder).parameters)


# ── layouts ───────────────────────────────────────────────────────────────────────────────────────────


def test_members_of_a_layout():
    layout = T.Layout([4, 8], lambda i, j: (j, i % 2, i // 2))
    assert list(layout.get_input_shape()) == [4, 8] == list(layout.input_size)
    assert list(layout.get_output_shape()) == [8, 2, 2]
    assert len(layout.get_forward_vars()) == 2 and len(layout.get_forward_index()) == 3
    assert len(layout.index) == 3 == len(layout.forward_index)
    assert [int(n) for n in layout.map_forward_index([3, 5])] == [5, 1, 1]
    assert [int(n) for n in layout.map_forward_index(indices=[2, 5])] == [5, 0, 1]
    assert layout.get_linearized_forward_index() is not None
    assert layout.inverse().is_equal(T.Layout([8, 2, 2], lambda j, a, b: (b * 2 + a, j)))
    assert list(layout.expand([3]).get_input_shape()) == [3, 4, 8]
    assert [int(n) for n in layout.expand(leading_shape=[3]).map_forward_index([2, 3, 5])] == [2, 5, 1, 1]
    assert list(layout.repeat(dim=0, factor=2).get_input_shape()) == [8, 8]


def test_members_of_a_fragment():
    fragment = T.Fragment([8, 4], forward_fn=lambda i, j: (i * 4 + j, 0))
    assert fragment.get_thread_size() == 32 and list(fragment.get_input_shape()) == [8, 4]
    assert list(fragment.input_size) == [8, 4] and int(fragment.replicate_size) == 1
    assert list(fragment.get_output_shape()) == [1] and fragment.thread is not None
    assert int(fragment.map_forward_thread([3, 2])) == 14
    assert [int(n) for n in fragment.map_forward_index([3, 2])] == [0]
    assert len(fragment.index) == 1 == len(fragment.get_forward_index()) == len(fragment.forward_index)
    assert fragment.forward_thread is not None and len(fragment.get_forward_vars()) == 2
    assert fragment.get_linearized_forward_index() is not None
    assert fragment.is_equal(T.Fragment([8, 4], lambda i, j: (i * 4 + j, 0)))
    assert fragment.replicate(2).get_thread_size() == 64 and int(fragment.replicate(2).replicate_size) == 2
    wide = fragment.repeat([2, 1], repeat_on_thread=True, lower_dim_first=False)
    assert list(wide.get_input_shape()) == [16, 4] and wide.get_thread_size() == 64
    deep = fragment.expand([2])
    assert list(deep.get_input_shape()) == [2, 8, 4] and int(deep.map_forward_thread([1, 3, 2])) == 14
    flat = fragment.reshape([32])
    assert list(flat.get_input_shape()) == [32] and int(flat.map_forward_thread([14])) == 14
    assert list(fragment.inverse().get_input_shape())
