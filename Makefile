# One word each; each command first makes what is missing or out of date (tools/setup.sh).
#   demo   the quickstart: a tiled GEMM in Python, compiled, run, checked, timed against NumPy
#   build  the library, tl_opt and the Python binding
#   test   all checks and tests; those that need a GPU are skipped without one.  JOBS=1: pytest in one process;
#          TL_FULL=1: what they do on one target, type or seed in turn, they do on all
#   bless  rewrite the expected halves of test/golden, and its counters, from what the compiler says now
#   fuzz   random expressions and programs, for longer: make fuzz SECONDS=600 [TARGETS=cuda,cpu,sim:sm_90]; or so many
#          fresh programs, counted by kinds: make fuzz PROGRAMS=20000; what fails is reduced and written to build/fuzz
#   mutants  faults put into our own programs, one by one: the simulator must notice them
#   seeds  all examples, small, in the simulator: make seeds SEEDS=50 schedules of each
#   alone  each C++ file compiled by itself, by g++ or CXX=clang++-19: it must include what it uses
#   docs   the pages of docs/ that are made from the code
#   size   lines per room, and the numbers to watch
#   fmt    clang-format and ruff, in place
.PHONY: build demo test bless fuzz mutants seeds alone docs size fmt
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python
SECONDS := 60
SEEDS := 50
CLANG_FORMAT := .venv/bin/clang-format
CPP_FILES = $(shell find src bindings tools test examples -name '*.cpp' -o -name '*.h')

build:
	@tools/setup.sh build

demo:
	@tools/setup.sh demo
	@$(PYTHON) examples/quickstart.py

test:
	@tools/setup.sh test
	@$(PYTHON) tools/check_includes.py
	@$(PYTHON) tools/check_style.py
	@$(PYTHON) -m ruff check --quiet . && $(PYTHON) -m ruff format --check --quiet . && echo "ruff: ok"
	@$(CLANG_FORMAT) --dry-run -Werror $(CPP_FILES) && echo "clang-format: ok"
	@$(PYTHON) tools/run_tests.py $(JOBS)

bless:
	@tools/setup.sh test
	@$(PYTHON) tools/bless.py --bless
	@$(PYTHON) test/counter_goldens.py --bless

fuzz:
	@tools/setup.sh test
ifdef PROGRAMS
	@$(PYTHON) tools/fuzz.py $(PROGRAMS) $(if $(TARGETS),--targets $(TARGETS))
else
	@TL_FUZZ_SECONDS=$(SECONDS) $(if $(TARGETS),TL_FUZZ_TARGETS=$(TARGETS)) build/release/tl_fuzz
endif

mutants:
	@tools/setup.sh test
	@$(PYTHON) test/mutants/judge.py

seeds:
	@tools/setup.sh test
	@$(PYTHON) test/seeds.py --seeds $(SEEDS)

alone:
	@tools/setup.sh test
	@cmake -S . -B build/alone -G Ninja -DTL_TESTS=ON -DTL_WERROR=ON -DTL_UNITY=OFF \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DCMAKE_CXX_COMPILER=$(CXX)
	@ninja -C build/alone

docs:
	@tools/setup.sh demo
	@$(PYTHON) tools/make_docs.py
	@$(PYTHON) tools/doc_outputs.py

size:
	@python3 tools/size.py

fmt:
	@tools/setup.sh test
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .
	@$(CLANG_FORMAT) -i $(CPP_FILES)
