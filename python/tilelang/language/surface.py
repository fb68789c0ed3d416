"""The names of the published language: which need other hardware, which are not here yet, and what is said
when one that is missing is asked for.  docs/surface.md is made from this.
"""

from __future__ import annotations

from ..front import idioms

_SM_90 = "needs sm_90 (clusters), which this version does not use yet"
_SM_90A = "needs sm_90a (wgmma and warp roles), which is not among the targets yet"
_ASYNC = "asynchronous copies are not in this version yet; T.copy is synchronous"
_MBARRIER = "mbarriers are not in this version yet; T.sync_threads orders memory"
_PDL = "needs sm_90 (programmatic dependent launch), which this version does not use yet"
_TMA = "needs the tensor memory accelerator of sm_90, which this version does not use yet; T.copy moves tiles"

# Names that this version does not have, and why.
MISSING: dict[str, str] = {
    name: why
    for why, names in {
        _SM_90: """ClusterKernel alloc_cluster_barrier block_rank_in_cluster cluster_arrive
            cluster_arrive_relaxed             cluster_sync cluster_wait copy_cluster""",
        _SM_90A: """alloc_descriptor alloc_wgmma_desc annotate_consumer_reg_alloc
            annotate_producer_reg_dealloc             annotate_ws_schedule dec_max_nreg
            inc_max_nreg initialize_wgmma_descriptor ptx_wgmma_ss set_max_nreg
            wait_wgmma warpgroup_arrive warpgroup_commit_batch warpgroup_fence_operand
            warpgroup_wait wgmma_gemm             ws ws_op WarpSpecialize WSPipeline
            WSRole WSSchedule WSScope WSSync""",
        _ASYNC: "async_copy cp_async_barrier_noinc ptx_commit_group ptx_cp_async ptx_wait_group",
        _MBARRIER: """alloc_barrier barrier_arrive barrier_wait mbarrier_arrive mbarrier_arrive_expect_tx
            mbarrier_expect_tx mbarrier_wait_parity fence_proxy_async""",
        _TMA: "create_tma_descriptor tma_copy tma_load tma_store_arrive tma_store_wait",
        _PDL: "pdl_sync pdl_trigger",
        "structured sparsity is not in this version yet": "gemm_sp",
        "im2col loads are not in this version yet; index the image in a T.Parallel loop": "im2col",
        "Volta's matrix instructions are not among the targets": "make_volta_swizzled_layout",
    }.items()
    for name in names.split()
}

# The published language, whatever of it is here.
PUBLISHED = frozenset(MISSING) | frozenset(
    """
        Serial Unroll Vectorized Buffer CUDASourceCodeKernel Cast Fragment FragmentBuffer GemmWarpPolicy
        Kernel Layout LocalBuffer
    Parallel     Persistent PersistentTileScheduler Pipelined Ref Select SharedBuffer StridedTensor Tensor
    __cos __exp __exp10     __log __log10 __log2 __sin __tan abs abs2 access_ptr acos acosh activemask add2
    address_of align_up all_of     all_sync alloc_fragment alloc_global alloc_local alloc_reducer
    alloc_shared alloc_var annotate_compile_flags     annotate_l2_hit_ratio annotate_layout
    annotate_min_blocks_per_sm annotate_pass_configs     annotate_restrict_buffers annotate_safe_value
    any_of any_sync asin asinh assume atan atan2 atanh atomic_add     atomic_addx2 atomic_addx4 atomic_load
    atomic_max atomic_min atomic_or atomic_store attr ballot ballot_sync     bitwise_and bitwise_not
    bitwise_or bitwise_xor bfloat16 bool call_extern call_pure_extern cast ceil ceildiv     clamp clear clz
    comm_reducer const copy cos cosh cummax cumsum device_assert disable_warp_group_reg_alloc dp4a
    dynamic empty erf evaluate exp exp2 extract_lane fast_rcp fill finalize_reducer float float16 float32
    float4_e2m1fn float64 float8_e4m3fn float8_e5m2 float8_e8m0fnu floor floordiv floormod fma2 fmod gemm
    get_block_binding get_block_bindings get_lane_idx get_thread_binding get_thread_bindings
    get_thread_extent     get_thread_extents get_warp_group_idx get_warp_idx get_warp_idx_sync grid ieee_add
    ieee_fdiv ieee_fmaf     ieee_frcp ieee_frsqrt ieee_fsqrt ieee_mul ieee_sub if_then_else import_source
    index_to_coordinates infinity     inline int16 int32 int4 int64 int8 isfinite isinf isnan ldg128 ldg256
    ldg32 ldg64 lds128 lds32 lds64 log log10     log1p log2 loop_break macro make_tensor
    make_tensor_from_addr match_all_sync match_any_sync max max2 max_value     meta_class min min2 min_value
    mul2 named_barrier_arrive nearbyint no_set_max_nreg parallel popcount pow     prim_func print ptr reduce
    reduce_absmax reduce_abssum reduce_bitand reduce_bitor reduce_bitxor reduce_max     reduce_min
    reduce_sum reducer_init reducer_update reinterpret reshape rng_init rng_rand rng_rand_float round
    rsqrt serial shfl_down shfl_sync shfl_up shfl_xor shift_left shift_right shuffle_elect sigmoid sin sinh
    sqrt     stg128 stg256 stg32 stg64 sts128 sts32 sts64 sub2 symbolic sync_grid sync_threads sync_warp
    syncthreads_and syncthreads_count syncthreads_or tan tanh tfloat32 thread_binding thread_return
    transpose trunc     truncdiv truncmod tvm_thread_allreduce tvm_warp_shuffle uint16 uint32 uint4 uint64
    uint8 unroll use_swizzle     vectorized view warp_reduce_bitand warp_reduce_bitor warp_reduce_max
    warp_reduce_min warp_reduce_sum
    """.split()  # noqa: SIM905
)


_TOOLS = "a tool that is not in this version yet"
_SPARSE = "structured sparsity is not in this version yet"

# The published names outside of the language, by where they are found, and those that this version does
# not have.
ELSEWHERE: dict[str, str] = {
    "tilelang": """AutoTuner JITKernel Layout Fragment PassConfigKey Profiler TensorSupplyType autotune cdiv
        clear_cache compile disable_cache dtypes enable_cache get_autotune_inputs is_cache_enabled jit lower
        next_power_of_2 par_compile register_matrix set_autotune_inputs set_log_level SimulationError""",
    "tilelang.cpu.language": "", "tilelang.cuda.language": "", "tilelang.rocm.language": "",
    "tilelang.metal.language": "", "tilelang.webgpu.language": "",
    "tilelang.layout": """SwizzleMode make_cutlass_metadata_layout make_full_bank_swizzled_layout
        make_fully_replicated_layout_fragment make_gemm_fragment_8x8 make_gemm_fragment_8x8_transposed
        make_half_bank_swizzled_layout make_linear_layout make_quarter_bank_swizzled_layout
        make_swizzled_layout
        make_volta_swizzled_layout make_wgmma_swizzled_layout""",
    "tilelang.layout.cute": """ComposedLayout IntTuple Layout Swizzle coalesce complement composition
    left_inverse
        logical_divide logical_product right_inverse""",
    "tilelang.intrinsics": "TensorCoreIntrinEmitter get_swizzle_layout",
    "tilelang.cuda.intrinsics": "TensorCoreIntrinEmitter get_swizzle_layout",
    "tilelang.transform": "simplify_prim_func",
    "tilelang.engine": """lower register_c_postproc register_c_postproc_callback register_cuda_postproc
        register_cuda_postproc_callback register_hip_postproc register_hip_postproc_callback""",
    "tilelang.profiler": "Profiler do_bench",
    "tilelang.testing": """main process_func regression requires_cuda requires_cuda_compute_version
        requires_cuda_compute_version_eq requires_cuda_compute_version_ge requires_cuda_compute_version_gt
        requires_cuda_compute_version_le requires_cuda_compute_version_lt requires_gfx requires_llvm
        requires_metal
        requires_package requires_rocm set_random_seed""",
    "tilelang.tools": "Analyzer lower_trace pass_diff pass_timing pass_visualizer plot_layout",
    "tilelang.utils.tensor": "get_tensor_supply map_torch_type torch_assert_close",
    "tilelang.utils.target": "determine_target",
    "tilelang.utils.sparse": "compress",
    "tilelang.quantize": "_tir_packed_to_signed_convert _tir_packed_to_unsigned_convert",
    "tilelang.contrib.nvcc": "get_target_compute_version",
    "tilelang.carver.arch.driver": "get_num_sms",
    "tilelang.carver.template": """ConvTemplate ElementwiseTemplate FlashAttentionTemplate GEMVTemplate
        GeneralReductionTemplate MatmulTemplate""",
    "tilelang.carver.roller": "rasterization",
}
MISSING_ELSEWHERE: dict[str, str] = {
    "tilelang.layout.make_cutlass_metadata_layout": _SPARSE,
    "tilelang.layout.make_volta_swizzled_layout": "Volta's matrix instructions are not among the targets",
    "tilelang.testing.regression": _TOOLS,
    **{f"tilelang.tools.{name}": _TOOLS
       for name in "Analyzer lower_trace pass_diff pass_timing pass_visualizer".split()},  # noqa: SIM905
    "tilelang.utils.sparse.compress": _SPARSE,
}


def why_missing(name: str) -> str:
    """Why this version does not have a published name."""
    return MISSING.get(name, "not in this version yet")


def message(name: str, known: list[str]) -> str:
    """Why `T.name` is not there, and what may have been meant; `known` are the names that are."""
    if name in PUBLISHED:
        return f"T.{name}: {why_missing(name)}"
    if name.startswith("tcgen05") or "tmem" in name:
        return f"T.{name} needs sm_100 (Blackwell), which is not among the targets"
    if name in idioms.NAMES:
        return f"T.{name}: there is no such name in the language; here that is {idioms.NAMES[name]}"
    if name in idioms.ABSENT:
        return f"T.{name}: there is no such operation in the language: {idioms.ABSENT[name]}"
    import difflib

    near = difflib.get_close_matches(name, [*known, *PUBLISHED], 1)
    hint = f"; did you mean T.{near[0]}?" if near else ""
    return f"T.{name}: there is no such name in the language{hint}"
