#!/usr/bin/env bash
# Makes what `make build|demo|test` need and do not find: packages, .venv, the build.  It looks before it acts, so
# that a second run is quick; where it may not install, it names what is missing and stops.
#   PYTHON=…           the Python that .venv is made from (3.10 or newer)
#   TL_THIRD_PARTY=…   a folder that holds fmt/, doctest/ and CLI/, where the system has none
#   TL_WERROR=1        the compiler's warnings are errors
set -euo pipefail
cd "$(dirname "$0")/.."
goal=${1:?usage: tools/setup.sh build|demo|test}
build=build/release

say() { if [ -t 1 ]; then printf '\033[1m== %s\033[0m\n' "$*"; else printf '== %s\n' "$*"; fi; }
stop() { printf 'setup: %s\n' "$@" >&2; exit 1; }

# ── what is missing ─────────────────────────────────────────────────────────────────────────────────────────
have_header() {
  local dir
  for dir in "${TL_THIRD_PARTY:-/usr/include}" /usr/include /usr/local/include; do
    [ -e "$dir/$1" ] && return
  done
  return 1
}
have_library() { /sbin/ldconfig -p 2>/dev/null | grep -E "$1" >/dev/null; }
# A Python to start from: new enough, able to make an environment, with the headers that the binding needs.
usable_python() {
  command -v "$1" >/dev/null && "$1" - 2>/dev/null <<'P'
import ensurepip, os, sys, sysconfig, venv
assert sys.version_info >= (3, 10)
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
P
}
have_venv() { usable_python .venv/bin/python && .venv/bin/python -c 'import pip' 2>/dev/null; }
find_python() {
  local p
  for p in ${PYTHON:-python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10}; do
    usable_python "$p" && command -v "$p" && return
  done
  return 1
}

missing=()  # apt's names
need() { missing+=("$@"); }
command -v "${CXX:-g++}" >/dev/null || need g++
command -v cmake >/dev/null || need cmake
command -v ninja >/dev/null || need ninja-build
have_header fmt/format.h || need libfmt-dev
have_header doctest/doctest.h || need doctest-dev
have_header CLI/CLI.hpp || need libcli11-dev
have_library 'libLLVM(-|\.so\.)(1[6-9]|[2-9][0-9])' || need libllvm19
have_venv || find_python >/dev/null || need python3 python3-venv python3-dev
# Not worth a visit of its own.
[ ${#missing[@]} = 0 ] || command -v ccache >/dev/null || need ccache

# ── packages ────────────────────────────────────────────────────────────────────────────────────────────────
if [ ${#missing[@]} -gt 0 ]; then
  by_hand="not found: ${missing[*]}  (Debian's names: apt-get install ${missing[*]})"
  command -v apt-get >/dev/null || stop "$by_hand" "there is no apt-get here: install them by hand"
  if [ "$(id -u)" = 0 ]; then
    root=(env)
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    root=(sudo env)
  else
    stop "$by_hand" "installing them needs root, or sudo"
  fi
  say "apt-get install ${missing[*]}"
  "${root[@]}" apt-get update || true  # an unreachable source may not matter
  # Any libLLVM from 16 on will do, where this release has no 19.
  for n in 19 22 21 20 18 17 16; do
    if apt-cache show "libllvm$n" >/dev/null 2>&1; then missing=("${missing[@]/libllvm19/libllvm$n}"); break; fi
  done
  "${root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
    stop "apt-get could not install: ${missing[*]}"
fi

# ── .venv, with tilelang installed from this tree ───────────────────────────────────────────────────────────
if ! have_venv; then
  python=$(find_python) || stop "no Python ≥ 3.10 with venv and headers found; name one: PYTHON=… make $goal"
  say "making .venv from $python"
  rm -rf .venv
  "$python" -m venv .venv
fi
extras=""
if [ "$goal" = test ]; then
  extras="test"
  # NVRTC, so that GPU code is compiled in the tests of a machine without a GPU too: the toolkit's, else pip's.
  compgen -G "${CUDA_HOME:-/usr/local/cuda}/lib64/libnvrtc.so*" >/dev/null ||
    have_library 'libnvrtc\.so\.13' || extras="test,nvrtc"
fi
key=$({ pwd; .venv/bin/python -VV; cat pyproject.toml; } | sha256sum | cut -d ' ' -f 1)
if ! grep -qs "^$key" .venv/tilelang.${goal/build/demo} && ! grep -qs "^$key" .venv/tilelang.test; then
  say "installing into .venv: tilelang${extras:+[$extras]} and what it needs"
  pip=(.venv/bin/python -m pip --disable-pip-version-check install)
  "${pip[@]}" 'scikit-build-core>=0.10' 'nanobind>=2.0' &&
    SKBUILD_WHEEL_CMAKE=false SKBUILD_EDITABLE_MODE=inplace "${pip[@]}" --no-build-isolation -e ".${extras:+[$extras]}" ||
    stop "pip could not install the Python packages named above (is a package index reachable?)"
  rm -f .venv/tilelang.*
  echo "$key" >.venv/tilelang.${goal/build/demo}
fi

# ── the build ───────────────────────────────────────────────────────────────────────────────────────────────
options=(-DTL_PYTHON=ON -DTL_TESTS=ON "-DPython_EXECUTABLE=$PWD/.venv/bin/python")
[ -z "${TL_THIRD_PARTY:-}" ] || options+=("-DTL_THIRD_PARTY=$TL_THIRD_PARTY")
[ -z "${TL_WERROR:-}" ] || options+=("-DTL_WERROR=ON")
configured="$key ${CXX:-g++} ${options[*]}"
if [ ! -e $build/build.ninja ] || [ "$(cat $build/configured 2>/dev/null)" != "$configured" ]; then
  say "configuring $build"
  rm -f $build/CMakeCache.txt
  cmake -S . -B $build -G Ninja -DCMAKE_CXX_COMPILER="${CXX:-g++}" "${options[@]}"
  echo "$configured" >$build/configured
fi
case $goal in
  demo) targets=(_core) ;;
  build) targets=(_core tl_opt) ;;
  test) targets=(all) ;;
  *) stop "unknown goal: $goal" ;;
esac
say "building $build"
ninja -C $build "${targets[@]}"
