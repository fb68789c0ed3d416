"""The tuner in its published forms."""

import numpy
import pytest
import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner, set_autotune_inputs
from tilelang.autotuner.param import CompileArgs, ProfileArgs
from tilelang.autotuner.tuner import autotune


def add_one(n, block=32):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1.0

    return main


CONFIGS = [{"block": 32}, {"block": 64}]


def test_a_tuner_by_keywords_is_called():
    tuner = AutoTuner(fn=lambda block: add_one(64, block), configs=CONFIGS)
    assert tuner.set_compile_args([-1], "cpu") is tuner
    assert tuner.compile_args == CompileArgs([-1], target="cpu")
    assert tuner.set_profile_args(1, 1, 30, tilelang.TensorSupplyType.One, lambda a: a + 1) is tuner
    assert tuner.profile_args.supply_type is tilelang.TensorSupplyType.One
    assert isinstance(tuner.profile_args, ProfileArgs) and callable(tuner.fn)
    result = tuner()
    assert result.config in CONFIGS and result.ref_latency > 0 and result.latency == result.kernel.latency
    assert result.libcode == result.kernel.get_kernel_source()


def test_run_takes_its_options_by_position():
    tuner = AutoTuner.from_kernel(add_one, CONFIGS).set_kernel_parameters(((64,), {}), {})
    tuner.set_compile_args(out_idx=-1, target="cpu")
    result = tuner.run(1, 1, 60, False, False, 2, None, False, True, 3.0)
    assert result.config in CONFIGS
    assert tuner.cache_dir.name == "autotuner"
    key = tuner.generate_cache_key({"n": 64}, {})
    assert key == tuner.generate_cache_key({"n": 64}, {}) != tuner.generate_cache_key({"n": 65}, {})


def test_what_autotune_gives_has_its_settings():
    tuned = autotune(configs=CONFIGS, warmup=2, rep=3, timeout=50)(tilelang.jit(add_one, target="cpu"))
    assert (tuned.warmup, tuned.rep, tuned.timeout, tuned.ref_prog) == (2, 3, 50, None)
    assert tuned.supply_type is tilelang.TensorSupplyType.Auto and tuned.configs == CONFIGS
    assert tuned.jit_impl.func.__name__ == "add_one"


def scaled(n, block=32):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), m: T.int32, B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * m

    return main


def test_scalars_need_a_supply():
    def tuner(**options):
        tuner = AutoTuner(lambda block: scaled(64, block), CONFIGS).set_compile_args(-1, "cpu")
        return tuner.set_profile_args(warmup=1, rep=1, **options)

    with pytest.raises(tilelang.CompileError, match=r"main takes m: .*when it is called.*supply_prog=") as e:
        tuner().run()
    assert e.value.file == __file__
    x = numpy.ones(64, "float32")
    assert tuner(supply_prog=lambda params: [x, 3], ref_prog=lambda a, m: a * m).run().latency > 0
    with set_autotune_inputs(x, 3):
        assert tuner().run().latency > 0


@tilelang.autotune(configs=CONFIGS, warmup=1, rep=1)
@tilelang.jit(target="cpu")
def eager(A, m: T.int32, block: int = 32):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    B = T.empty([n], "float32")
    with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * m
    return B


def test_an_eager_kernel_is_tuned_on_the_arguments_of_its_call():
    x = numpy.arange(64, dtype="float32")
    numpy.testing.assert_array_equal(eager(x, 3), x * 3)
    numpy.testing.assert_array_equal(eager(m=4, A=x), x * 4)


@pytest.mark.parametrize(
    "configs, said",
    [
        (None, "not None"),
        ({"block": 4}, r"\['block'\] lists the values to try, \[4\]; not 4"),
        ({"block": "32"}, "lists the values to try"),
        ([(32,), (64,)], r"among them is \(32,\)"),
        ([32, 64], "among them is 32"),
        ("block", "not 'block'"),
    ],
)
def test_what_configurations_are(configs, said):
    with pytest.raises(TypeError, match=f"autotune: configs.*{said}"):
        AutoTuner(add_one, configs).set_kernel_parameters(((64,), {})).run()


def test_configurations_that_can_be_looked_at_once():
    tuned = tilelang.autotune(configs=iter(CONFIGS), warmup=1, rep=1)(
        tilelang.jit(out_idx=[-1], target="cpu")(add_one)
    )
    x = numpy.ones(64, "float32")
    numpy.testing.assert_array_equal(tuned(64)(x), x + 1)


def test_an_input_supply_that_is_none():
    kernel = tilelang.compile(add_one(64), out_idx=[-1], target="cpu")
    with pytest.raises(TypeError, match="one of TensorSupplyType .*not 'nosuch'"):
        kernel.get_profiler("nosuch")
