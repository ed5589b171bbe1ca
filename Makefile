# Each target sets up what it needs on a fresh machine, which must have python3 with venv, a C++17
# compiler and a package index.
#
#   make demo          super-resolution by any factor, in PyTorch and ONNX Runtime
#   make playground    the same and the deformable digits as a web page, in build/playground (node, npm)
#   make test          the quick tests, in minutes: Python, and C++ on the libraries as built
#   make test-all      every test but those of test-hosts: also the slow ones, sanitizers, 64-bit ARM;
#                      the same as test-compiled (C++), test-python and test-portable
#   make test-hosts    programs in C++ and Node.js that run our ops (downloads ONNX Runtime for both)
#   make test-ray      batch runs and serving on a Ray cluster of this machine (downloads Ray)
#   make lint          exactly what CI checks: ruff, mypy, clang-format
#   make tidy          clang-tidy on the portable C++ sources (.clang-tidy)
#   make format        rewrite the code the way `make lint` wants it
#   make build         rebuild the three libraries in place after a change in csrc/
#   make test-cmake    builds the ONNX Runtime library of another package through CMake (a minute)
#   make bench         compare with other libraries: at most 45 minutes, docs/performance.md
#   make test-native   C++ tests, without Python, of the objects that are in our libraries
#   make test-sanitizers  C++ tests, and a short run of the fuzzer, under the sanitizers
#   make test-arm      C++ tests for 64-bit ARM in an emulator (on Debian: g++-aarch64-linux-gnu,
#                      qemu-user-static)
#   make test-cuda     tests and measurements on an NVIDIA GPU; without a GPU it only prints a message
#   make test-cuda-sources  compiles the CUDA sources for five architectures, without a GPU (two minutes)
#   make slowest       print the slowest Python tests of the last run, and write what `make test`
#                      leaves out into tests/slow_tests.txt
#   make fuzz          a long run of the fuzzers: FUZZ_SECONDS (600) and FUZZ_EXAMPLES (1000)
#   make load          the load tests for LOAD_SECONDS (60), longer than in `make test-all`
#   make compat        the golden models in every ONNX Runtime; writes docs/compatibility.md
#   make zoo           export and run the networks of tests/zoo: docs/zoo.md (10 minutes)
#   make precision     half precision and int8 of five of them and the examples: docs/precision.md
#   make docs          updates the pictures of terminals in docs/, the type stub and the site
#   make site          the documentation as a site, in build/site; a broken link is an error
#   make coverage      which lines of Python and C++ the tests run: docs/coverage.md (half an hour)
#   make wheel         a wheel in dist/, for this machine
#   make dist          wheels for other Linux systems too, x86_64 and aarch64, in dist/: a quarter of an hour
#   make test-dist     test these in fresh environments (on Debian; downloads gigabytes); writes docs/compatibility.md
#   make test-newest-torch  tests with the newest torch of the index (downloads 500 MB); writes
#                      docs/compatibility.md
#   make test-oldest-torch  compiles what includes torch's headers with those of the oldest torch that
#                      pyproject.toml allows (a minute on one core; downloads 80 MB)
#   make clean         remove what was built

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Runs a command that takes minutes and shows its progress.
STEP := $(PYTHON) scripts/step.py
PYTEST_FLAGS ?=
# Two processes, because most tests use one core. The tests of a file run in one process, because
# they share exports. tests/conftest.py sorts the files: the longest come first, so that the two
# processes end at about the same time. A test that ends its process ends the run: with a process in
# its place, pytest-xdist would wait for the other tests of that file without end.
PARALLEL ?= --numprocesses 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
SOURCES := $(shell find csrc tests python -name '*.cpp' -o -name '*.h') $(wildcard examples/*/*.h examples/*/*/*.cpp)
NODE := examples/hosts/node
PLAYGROUND := examples/playground
LIBRARY := python/myops/lib/libmyops_torch.so

.PHONY: demo playground test test-all test-compiled test-python test-portable test-cuda test-cuda-sources objects native-tree lint tidy format build slowest test-native test-sanitizers test-arm test-cmake test-hosts host-packages ray-packages test-ray bench fuzz load compat zoo precision docs site coverage wheel dist test-dist test-newest-torch test-oldest-torch clean

FUZZ_SECONDS ?= 600
FUZZ_EXAMPLES ?= 1000
LOAD_SECONDS ?= 60

# The versions that are installed; `make test PINS= TORCH=torch==2.10.*` installs the newest versions
# of all packages but torch.
PINS ?= --constraint constraints.txt
TORCH ?= torch

# Some machines set this; then each process would compile all Python files that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The libraries are compiled while pip unpacks the packages, which uses one core at most. --no-compile:
# Python compiles what is imported, a small part of the packages.
$(READY): pyproject.toml constraints.txt setup.py
	$(PYTHON) -m venv $(VENV)
	@$(STEP) "get torch and what compiles our libraries (a minute; more where torch comes with CUDA)" \
	  $(BIN)/pip install --no-compile $(PINS) "$(TORCH)" setuptools wheel ninja pybind11 numpy
	@$(STEP) "get the packages of tests and tools, compile the libraries (5 minutes on 2 cores)" sh -c '\
	  $(BIN)/python setup.py build_ext --inplace & \
	  MYOPS_COMPILE=0 $(BIN)/pip install --verbose --no-compile $(PINS) --no-build-isolation --editable ".[test,lint]"; \
	  packages=$$?; wait $$! && exit $$packages'
	touch $@
	touch $(LIBRARY)

# Editable installs do not notice changes in C++; this does.
build: $(READY)
	@$(MAKE) --silent $(LIBRARY) # a make of its own: the install above may have built it already

$(LIBRARY): $(READY) $(shell find csrc -name '*.cpp' -o -name '*.h')
	@$(STEP) "compile what changed in csrc/ (4 minutes for all of it)" $(BIN)/python setup.py build_ext --inplace
	touch $@

demo: build
	@echo "myops: export the model, enlarge a photograph by four factors (half a minute)"
	$(BIN)/python examples/super_resolution/demo.py

# The page runs the file of `make demo`, which is only exported if it does not exist.
playground: build $(PLAYGROUND)/node_modules/.package-lock.json
	@test -e build/super_resolution/super_resolution.onnx || $(MAKE) --no-print-directory demo
	$(BIN)/python $(PLAYGROUND)/models.py
	node $(PLAYGROUND)/build.mjs build/playground_models build/playground

# ONNX Runtime for C++ is fetched because our declaration of its ABI is compared with the official
# header, and the tutorial's last program is built with it; without it these two tests are skipped.
# OMP_NUM_THREADS: each process has one core; two threads would wait for each other. OMP_WAIT_POLICY:
# in tests with two threads, one that waits does not keep a core busy.
# The times of the tests are written to build/test_seconds and, as a table, to build/slowest.md.
PYTEST = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest $(PARALLEL) $(PYTEST_FLAGS)
SECONDS_FILE = build/test_seconds
MEASURED = rm -f $(SECONDS_FILE) && MYOPS_TEST_SECONDS=$(abspath $(SECONDS_FILE))
test: build test-native
	-sh scripts/fetch_onnxruntime.sh
	$(MEASURED) $(PYTEST) -m "not slow" --ignore=tests/hosts

test-all: test-compiled
	@$(MAKE) --no-print-directory test-python
	@$(MAKE) --no-print-directory test-portable

test-compiled: test-native test-sanitizers test-arm

# With HOSTS= (empty) the tests of test-hosts run too, which keeps both processes busy to the end.
HOSTS ?= --ignore=tests/hosts
test-python: build
	-sh scripts/fetch_onnxruntime.sh
	-$(MAKE) --silent $(PLAYGROUND)/node_modules/.package-lock.json
	$(MEASURED) $(PYTEST) $(HOSTS)

# Tests of kernels with vector instructions once more, with the portable kernels.
test-portable: build
	MYOPS_ISA=portable $(PYTEST) -k "not compile and not export" tests/ops/test_deform_conv2d.py tests/ops/test_resize.py tests/ops/test_resize_standard.py tests/ops/test_resize_layouts.py

# tests/cuda is not part of the other targets, because it needs a GPU.
test-cuda: build
	PYTHON=$(BIN)/python PYTEST_FLAGS="$(PYTEST_FLAGS)" sh scripts/test_on_gpu.sh

CUDA_TESTS = build/native/tests/native/cuda/myops_cuda_tests
test-cuda-sources: native-tree
	PYTHON=$(PYTHON) sh scripts/compile_cuda_sources.sh $(CUDA_TESTS)

# Uses the times of the last run. Tests that did not run keep their lines in tests/slow_tests.txt.
slowest: build
	@test -e $(SECONDS_FILE) || $(MAKE) --no-print-directory test-python
	$(BIN)/python scripts/slowest.py $(SECONDS_FILE) tests/slow_tests.txt

# ccache (on Debian: ccache), if installed, reuses objects. With CCACHE_BASEDIR, paths in this folder
# count as relative, so that a clone in another folder reuses them too.
CCACHE := $(wildcard /usr/lib/ccache)
ifneq ($(CCACHE),)
export PATH := $(CCACHE):$(PATH)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
endif

# Without MAKEFLAGS: Ninja cannot use the job server of a make that does not pass it on, and CTest 4.4
# may abort when it connects to one.
CMAKE = env -u MAKEFLAGS $(BIN)/cmake
CONFIGURE = $(CMAKE) -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
  $(if $(MYOPS_CI),-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)
CTEST = env -u MAKEFLAGS $(BIN)/ctest --parallel 2 --output-on-failure --test-dir

# The objects from which the libraries were linked, so that only the tests have to be compiled.
OBJECTS = build/objects
objects: build
	@test -e $(OBJECTS)/csrc/core/invoke.o || $(BIN)/python setup.py build_ext --inplace

native-tree: objects
	$(CONFIGURE) -B build/native -DMYOPS_OBJECTS=$(abspath $(OBJECTS))
	$(CMAKE) --build build/native

test-native: native-tree
	$(CTEST) build/native
	MYOPS_ISA=portable $(CTEST) build/native --tests-regex "kernel_tests|shapes"

# Two trees, in which everything is compiled again: with Clang, for its libFuzzer, or else with GCC,
# and the fuzzer makes random calls instead. In a third tree the tests of the kernels are compiled at
# -O2, because GCC 12 once dropped stores at -O2 that it kept at -O3.
CLANG := $(shell PATH=$(CCACHE):$$PATH command -v clang++)
SANITIZED = $(CONFIGURE) -DMYOPS_IDLE_OBJECTS=$(abspath $(OBJECTS)) $(if $(CLANG),-DCMAKE_CXX_COMPILER=$(CLANG))
test-sanitizers: objects
	@$(if $(CLANG),,echo "no clang++: GCC's sanitizers, and random calls in place of libFuzzer" >&2)
	$(SANITIZED) -B build/address -DMYOPS_SANITIZE=address,undefined
	$(SANITIZED) -B build/thread -DMYOPS_SANITIZE=thread
	for tree in address thread; do \
	  $(CMAKE) --build build/$$tree && $(CTEST) build/$$tree || exit 1; \
	done
	$(CONFIGURE) -B build/native-O2 -DMYOPS_OPTIMIZATION=-O2 -DMYOPS_OBJECTS=$(abspath $(OBJECTS))
	$(CMAKE) --build build/native-O2 --target myops_kernel_tests
	$(CTEST) build/native-O2 --tests-regex kernel_tests

# NEON and portable kernels, and the library for ONNX Runtime inside its stand-in.
ARM_CXX ?= aarch64-linux-gnu-g++
ARM = -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$(ARM_CXX) \
  "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64-static;-L;/usr/aarch64-linux-gnu"
test-arm: $(READY)
	@if command -v $(ARM_CXX) && command -v qemu-aarch64-static; then \
	  $(CONFIGURE) -B build/arm $(ARM) -DMYOPS_OPTIMIZATION=-O2 && \
	  $(CMAKE) --build build/arm && $(CTEST) build/arm && \
	  MYOPS_ISA=portable $(CTEST) build/arm --tests-regex kernel_tests; \
	else \
	  echo "no $(ARM_CXX) or no qemu-aarch64-static: the tests for ARM are skipped" >&2; \
	fi

# build/fuzz-corpus contains the inputs that earlier runs found; each run begins with them.
FUZZ = build/address/tests/native/fuzz
fuzz: objects
	@test -n "$(CLANG)" || { echo "make fuzz needs clang++ and its libFuzzer (on Debian: clang)" >&2; exit 1; }
	$(SANITIZED) -B build/address -DMYOPS_SANITIZE=address,undefined
	$(CMAKE) --build build/address --target myops_fuzz_ops myops_each_isa
	mkdir -p build/fuzz-corpus
	$(FUZZ)/myops_each_isa $(FUZZ)/myops_fuzz_ops -max_len=512 -timeout=20 -max_total_time=$(FUZZ_SECONDS) build/fuzz-corpus
	MYOPS_FUZZ_SECONDS=$(FUZZ_SECONDS) MYOPS_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/fuzz

load: build
	MYOPS_LOAD_SECONDS=$(LOAD_SECONDS) $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/ort/test_load.py

compat: build
	$(BIN)/python scripts/compat.py

zoo: build
	$(BIN)/python scripts/make_zoo.py

precision: build
	$(BIN)/python scripts/make_precision.py

docs: build
	$(BIN)/python scripts/record_casts.py
	$(BIN)/python scripts/make_stubs.py
	@$(MAKE) --silent site

# NO_MKDOCS_2_WARNING: mkdocs-material warns of MkDocs 2, which pyproject.toml excludes.
site: build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

coverage: build
	$(BIN)/python scripts/coverage_report.py

test-cmake: build
	MYOPS_TEST_CMAKE_BUILD=1 $(BIN)/python -m pytest $(PYTEST_FLAGS) tests/test_your_own_op.py -k cmake

# Tests whose packages cannot be downloaded are skipped; with MYOPS_CI=1 they fail.
test-hosts: build host-packages
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_FLAGS) tests/hosts

# Ray is not part of the extra "test", because it is large (half a gigabyte with its dependencies). Its
# packages take 25 seconds to install, and its tests half a minute.
ray-packages:
	$(BIN)/pip install --quiet $(PINS) "ray[data,serve]"

test-ray: build ray-packages
	$(BIN)/python -m pytest $(PYTEST_FLAGS) tests/batch/test_batch_ray.py

host-packages:
	-sh scripts/fetch_onnxruntime.sh
	-$(MAKE) --silent $(NODE)/node_modules/.package-lock.json

# --ignore-scripts: the packages are complete; onnxruntime-node's script would download the CUDA variant.
%/node_modules/.package-lock.json: %/package-lock.json
	npm ci --ignore-scripts --prefix $*
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(SOURCES)

tidy: $(READY)
	$(BIN)/python scripts/tidy.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(SOURCES)

# Installs only the packages of the extra "bench"; `pip install .[bench]` would compile the
# libraries again.
$(VENV)/.bench: $(READY)
	$(BIN)/python benchmarks/peers_to_install.py | $(BIN)/pip install --quiet --constraint constraints.txt --requirement /dev/stdin
	touch $@

# BENCH_FLAGS="--op resize --threads 1" measures less and does not change docs/performance.md.
BENCH_FLAGS ?= --json build/bench.json --markdown docs/performance.md
bench: build $(VENV)/.bench
	mkdir -p build
	$(BIN)/python benchmarks/run.py $(BENCH_FLAGS)

wheel: $(READY)
	$(BIN)/pip wheel --no-deps --wheel-dir dist .

# SOURCE_DATE_EPOCH is the time stamp in the wheels; default: the time of the last commit.
DIST_FLAGS ?=
dist: build
	$(BIN)/python scripts/make_dist.py $(DIST_FLAGS)

TRY_FLAGS ?=
test-dist: dist
	$(BIN)/python scripts/try_dist.py $(TRY_FLAGS)

# Not part of CI, because of the download. NEWEST_FLAGS="--wheel FILE" uses a downloaded wheel.
NEWEST_FLAGS ?=
test-newest-torch: build
	OMP_NUM_THREADS=1 $(BIN)/python scripts/newest_torch.py $(NEWEST_FLAGS)

# OLDEST_FLAGS="2.11 2.12" compiles with the headers of these releases instead.
OLDEST_FLAGS ?=
test-oldest-torch: $(READY)
	$(BIN)/python scripts/oldest_torch.py $(OLDEST_FLAGS)

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache
	find python -name '*.so' -delete
