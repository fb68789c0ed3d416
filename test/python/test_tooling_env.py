"""tilelang.env: an object whose attributes are environment variables, and the module of that name."""

import os
import subprocess
import sys

import pytest
import tilelang
import tilelang.env as imported
from tilelang.env import CUDA_HOME, TL_ROOT, CacheState, Environment, EnvVar, env


@pytest.fixture
def plain(monkeypatch):
    """The environment without our variables."""
    for name in list(os.environ):
        if name.startswith(("TILELANG_", "TL_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(env, "_cache_enabled", None)
    return monkeypatch


def test_the_object_and_the_module_are_one():
    assert tilelang.env is imported is env and isinstance(env, Environment)
    assert os.path.isdir(TL_ROOT) and isinstance(CUDA_HOME, str) and env.CUDA_HOME == CUDA_HOME
    from tilelang.env import TILELANG_TEMPLATE_PATH, TL_LIBS, get_runtime_library_dirs

    assert isinstance(TILELANG_TEMPLATE_PATH, str) and TL_LIBS and TL_ROOT in get_runtime_library_dirs()
    assert tilelang.get_runtime_library_dirs is get_runtime_library_dirs
    with pytest.raises(ImportError):
        from tilelang.env import NO_SUCH_NAME  # noqa: F401


def test_variables_and_what_reads_them(plain, tmp_path):
    plain.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert str(env.TILELANG_CACHE_DIR) == str(tmp_path / "tilelang") == env.get_cache_dir()
    assert (env.get_default_target(), env.get_default_execution_backend()) == ("auto", "auto")
    assert not env.is_print_on_compilation_enabled() and not env.get_default_verbose()
    assert env.get_compile_timeout_seconds() is None and env.get_lower_trace_mode() is None
    assert env.get_pass_profile_threshold_ms() == 0.0 and not env.is_pass_profile_enabled()
    assert env.should_cleanup_temp_files() and env.is_span_enable() and not env.is_running_autodd()
    assert not env.is_autotune_cache_disabled() and not env.is_light_import()
    plain.setenv("TILELANG_CACHE_DIR", "~/x")
    plain.setenv("TILELANG_VERBOSE", "yes")
    plain.setenv("TILELANG_COMPILE_TIMEOUT_SECONDS", "7")
    plain.setenv("TILELANG_PASS_PROFILE_THRESHOLD_MS", "0.5")
    assert env.TILELANG_CACHE_DIR == "~/x" and env.get_cache_dir() == os.path.expanduser("~/x")
    assert env.get_default_verbose() and env.get_compile_timeout_seconds() == 7
    assert env.get_pass_profile_threshold_ms() == 0.5
    plain.setenv("TILELANG_PASS_PROFILE_THRESHOLD_MS", "soon")
    with pytest.raises(ValueError, match="a number of milliseconds, at least 0, not 'soon'"):
        env.get_pass_profile_threshold_ms()


def test_a_value_that_is_set_counts_more(plain):
    plain.setenv("TILELANG_DEFAULT_TARGET", "reference")
    plain.setattr(Environment.TILELANG_DEFAULT_TARGET, "_forced_value", None)
    env.TILELANG_DEFAULT_TARGET = "cpu"
    assert env.get_default_target() == "cpu" and Environment.TILELANG_DEFAULT_TARGET.key in os.environ


def test_every_row_of_the_table_has_a_value_and_a_doc():
    names = [name for name, value in vars(Environment).items() if isinstance(value, EnvVar)]
    assert len(names) > 25
    for name in names:
        assert getattr(env, name) is None or isinstance(getattr(env, name), str)
    methods = [name for name in dir(env) if name.startswith(("is_", "get_", "should_"))]
    assert len(methods) > 15 and all(getattr(Environment, name).__doc__ for name in methods)


def test_the_switch_of_the_cache(plain):
    assert CacheState.is_enabled() and env.is_cache_enabled() and not env.is_cache_globally_disabled()
    CacheState.disable()
    assert not env.is_cache_enabled() and not tilelang.is_cache_enabled()
    tilelang.enable_cache()
    assert CacheState.is_enabled()
    plain.setenv("TILELANG_DISABLE_CACHE", "1")
    assert env.is_cache_enabled() and env.is_cache_globally_disabled()


def test_search_paths():
    code = (
        "import sys, os, tilelang\nfrom tilelang.env import prepend_pythonpath\n"
        "prepend_pythonpath('/no/folder'); tilelang.prepend_dll_search_path(['/no/lib'])\n"
        "assert sys.path[0] == '/no/folder' and os.environ['PYTHONPATH'].startswith('/no/folder')\n"
        "assert '/no/lib' in os.environ['LD_LIBRARY_PATH']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
