"""The names of the published language that this version does not have, and what is said when one is asked
for.
"""

from __future__ import annotations

LATER = frozenset(
    """
    ClusterKernel CUDASourceCodeKernel const empty ptr make_tensor make_tensor_from_addr Ref meta_class
    inline get_block_binding get_block_bindings get_thread_bindings get_thread_extents import_source
    call_extern call_pure_extern access_ptr address_of evaluate attr comm_reducer tvm_thread_allreduce
    thread_return alloc_global alloc_barrier alloc_cluster_barrier alloc_reducer alloc_wgmma_desc
    alloc_descriptor FragmentBuffer SharedBuffer LocalBuffer wgmma_gemm wait_wgmma gemm_sp
    reduce_bitand reduce_bitor reduce_bitxor
    reducer_init reducer_update finalize_reducer cumsum cummax transpose im2col any_of all_of reshape
    view clamp async_copy tma_copy copy_cluster dp4a atomic_add atomic_max atomic_min atomic_addx2
    atomic_addx4 atomic_load atomic_store atomic_or Persistent thread_binding loop_break
    PersistentTileScheduler annotate_safe_value annotate_l2_hit_ratio
    annotate_min_blocks_per_sm annotate_restrict_buffers annotate_pass_configs annotate_compile_flags
    annotate_ws_schedule WSSchedule WSRole WSPipeline WSSync WSScope ws_op ws WarpSpecialize
    disable_warp_group_reg_alloc set_max_nreg inc_max_nreg dec_max_nreg no_set_max_nreg
    annotate_producer_reg_dealloc annotate_consumer_reg_alloc assume align_up log1p tan
    atan asin acos sinh cosh asinh acosh atanh atan2 nearbyint fmod reinterpret bitwise_not popcount clz
    __exp __exp10 __log __log2 __log10 __sin __cos __tan fast_rcp ieee_add ieee_sub ieee_mul ieee_fmaf
    ieee_frcp ieee_fsqrt ieee_frsqrt ieee_fdiv add2 sub2 mul2 fma2 max2 min2 abs2 extract_lane rng_init
    rng_rand rng_rand_float index_to_coordinates print device_assert sync_warp sync_grid
    named_barrier_arrive shuffle_elect get_warp_idx_sync get_lane_idx get_warp_idx get_warp_group_idx
    shfl_sync shfl_xor shfl_down shfl_up any_sync all_sync ballot_sync ballot activemask match_any_sync
    match_all_sync syncthreads_count syncthreads_and syncthreads_or warp_reduce_sum warp_reduce_max
    warp_reduce_min warp_reduce_bitand warp_reduce_bitor tvm_warp_shuffle ldg32 ldg64 ldg128 ldg256
    stg32 stg64 stg128 stg256 lds32 lds64 lds128 sts32 sts64 sts128 pdl_trigger pdl_sync
    mbarrier_wait_parity mbarrier_arrive mbarrier_expect_tx mbarrier_arrive_expect_tx barrier_wait
    barrier_arrive ptx_cp_async ptx_commit_group ptx_wait_group cp_async_barrier_noinc fence_proxy_async
    tma_load create_tma_descriptor tma_store_arrive tma_store_wait warpgroup_arrive
    warpgroup_commit_batch warpgroup_wait warpgroup_fence_operand ptx_wgmma_ss
    initialize_wgmma_descriptor block_rank_in_cluster cluster_arrive cluster_arrive_relaxed cluster_wait
    cluster_sync make_volta_swizzled_layout ptx unpack_uint unpack_int unpack_e2m1
    float8_e4m3fn float8_e4m3 float8_e5m2 float8_e8m0fnu float8_e4m3fnuz float8_e5m2fnuz
    float4_e2m1fn int4 uint4 tfloat32 handle
    """.split()  # noqa: SIM905
)

_INSTEAD = {
    "const": "the eager dialect",
    "empty": "the eager dialect",
    "Ref": "macro arguments by reference: pass a buffer",
}


def message(name: str, known: list[str]) -> str:
    """Why `T.name` is not there, and what may have been meant; `known` are the names that are."""
    if name in LATER:
        why = f" ({_INSTEAD[name]})" if name in _INSTEAD else ""
        return f"T.{name}: not in this version yet{why}"
    if name.startswith("tcgen05") or "tmem" in name:
        return f"T.{name} needs sm_100 (Blackwell), which is not among the targets"
    import difflib

    near = difflib.get_close_matches(name, [*known, *LATER], 1)
    hint = f"; did you mean T.{near[0]}?" if near else ""
    return f"T.{name}: there is no such name in the language{hint}"
