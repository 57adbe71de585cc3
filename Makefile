# Short commands for common tasks. `make demo` and `make test` work from a fresh clone on Debian 12; CMake does the
# building.
BUILD ?= build/release
JOBS ?= $(shell nproc)
# Many tests sleep for much of their time.
TEST_JOBS ?= $(shell expr $(JOBS) + 2)

.PHONY: page pages help deps configure clone front-door build wheel release test-release release-tests test-gvisor check-roots demo demo-build quick test suites test-young test-lab test-long test-all mutants rest check check-short check-exhaustive litmus check-aa check-causes compat soak diff-pairs look-hangs look-hostile fuzz measure measure-waits bench-sim simulated-claims held-out try-cases stat-cases arm test-arm test-arm-long release-arm test-release-arm arm-systems emulator arena arena-sim man format check-format tidy install deb clean

# Prints each line "target: … ## group| text": 23 lines of at most 80 columns, so that a terminal shows all of them.
help:
	@sed -nE 's/^([a-z-]+):.*## ([a-z]+)\| /\2:\1:/p' $(MAKEFILE_LIST) | \
	  awk -F: '{printf "%-8s %-16s %s\n", $$1 == group ? "" : $$1, $$2, substr($$0, length($$1 $$2) + 3); group = $$1}'

# ---- use -------------------------------------------------------------------------------------------------------------------------

deps:
	@tools/deps.sh

configure: deps
	@mkdir -p $(BUILD)
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; echo "If this folder was moved or copied: make clean"; exit 1; }

build: configure ## use| build all; JOBS=N, BUILD=folder, here and below
	@cmake --build $(BUILD) -j $(JOBS)

# The demo's build has a folder of its own, with a few locks and no tests.
DEMO ?= build/demo
DEMO_PARTS = -DUSHER_LOCKS='steady;loiter;futex;mcscr;ttas;twa;pthread' -DBUILD_TESTING=OFF -DUSHER_BUILD_PROGRAMS=ON \
  -DUSHER_BUILD_SIMULATOR=OFF -DUSHER_BUILD_CHECKER=OFF -DUSHER_BUILD_EXAMPLES=OFF -DUSHER_INSTALL=OFF

demo: demo-build ## use| usher try on three real programs (4 minutes)
	@tools/demo.sh $(DEMO)

demo-build:
	@tools/deps.sh build demo
	@mkdir -p $(DEMO)
	@cmake -S . -B $(DEMO) -G Ninja -DCMAKE_BUILD_TYPE=Release $(DEMO_PARTS) > $(DEMO)/configure.log 2>&1 || { cat $(DEMO)/configure.log; exit 1; }
	@cmake --build $(DEMO) -j $(JOBS) --target usher usher_preload usher_stat sqlite_shared

# The product and its tests, without the laboratory. Leaves out the labels long (nested builds, real programs: make test-long)
# and all-locks.
PRODUCT = $(addsuffix /all, library support watch check tool examples tests)
LAB = 'lab|sim|workloads'
test: configure ## use| the product's tests
	@cmake --build $(BUILD) -j $(JOBS) --target $(PRODUCT)
	@cd $(BUILD) && ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error -LE 'all-locks|long|'$(LAB)

# The page of `usher report`, by Node.js, for packages and for the build in BUILD. Made again only if a source is newer.
page: build/page/report.html
	@if [ -d $(BUILD) ]; then install -D -m 644 $< $(BUILD)/share/usher/report.html; fi
build/page/report.html: $(wildcard watch/page/*.json watch/page/*.mjs watch/page/src/*)
	@command -v npm > /dev/null || tools/deps.sh page
	@cd watch/page && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && node build.mjs $(CURDIR)/$@

install: build ## use| install below PREFIX=/usr/local
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

# Says what no package mends, before packages are installed.
clone:
	@[ -e .git ] || { echo "usher: $(CURDIR) is no git clone, whose commit names and dates the packages: run make in a git clone" >&2; exit 1; }

# These three build once for glibc 2.28 and later, in build/portable, and write to build/dist.
deb: clone ## use| build Debian packages
	@tools/deps.sh build deb
	@python3 -m tools.release --jobs $(JOBS) --only deb
	@echo "Install them, as root, by"; echo "  apt install" $$(ls -d $(CURDIR)/build/dist/*.deb)

# For pip install build/dist/usher_locks-*.whl.
wheel: clone
	@tools/deps.sh build wheel
	@python3 -m tools.release --jobs $(JOBS) --only wheel

# KEY=id: gpg signs the checksums.
release: clone ## use| build all packages: wheel, tarball, .deb, .rpm, OCI
	@tools/deps.sh build package release
	@python3 -m tools.release --jobs $(JOBS) $(if $(KEY),--key $(KEY))

# Builds for AArch64, by Debian's cross compiler and its packages for that architecture, in build/aarch64: docs/aarch64.md.
ARM_EXAMPLES = bounded_queue own_lock large_lock shared_cache accounts
ARM_TARGETS = usher_product usher_test_programs $(ARM_EXAMPLES:%=example_%) \
  steady_rules_test order_test deadline_test unwind_test every_lock_test tickets_test c_api_test
ARM_PACKAGES = libc6-dev libstdc++-12-dev libcli11-dev libfmt-dev nlohmann-json3-dev libre2-dev libdw-dev libbz2-dev libprotozero-dev zlib1g-dev \
  libboost-context-dev libtomlplusplus-dev libexpat1-dev relacy-dev libgtest-dev systemtap-sdt-dev-
arm:
	@tools/deps.sh build aarch64
	@tools/debian_root.sh bookworm arm64 build/aarch64-root $(ARM_PACKAGES)
	@mkdir -p build/aarch64
	@cmake -S . -B build/aarch64 -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64.cmake \
	  -DUSHER_PORTABLE=ON -DCMAKE_INSTALL_LIBDIR=lib > build/aarch64/configure.log 2>&1 || { cat build/aarch64/configure.log; exit 1; }
	@cmake --build build/aarch64 -j $(JOBS) --target $(ARM_TARGETS)

# All packages but the container image, in build/dist-aarch64.
release-arm: clone arm
	@tools/deps.sh package release
	@python3 -m tools.release --architecture aarch64 --build build/aarch64 --out build/dist-aarch64 --only tarball,wheel,deb,rpm --jobs $(JOBS) --tests

# Compares them with those for x86-64, and uses them in systems for AArch64 (in build/aarch64-RELEASE), emulated.
ARM_SYSTEM = dpkg libc-bin dash coreutils diffutils findutils gzip python3-venv sed grep
test-release-arm: release release-arm emulator arm-systems
	@python3 tests/aarch64/test_packages.py --beside build/dist

arm-systems:
	@for release in bookworm bullseye; do tools/debian_root.sh $$release arm64 build/aarch64-$$release $(ARM_SYSTEM) || exit 1; done

emulator:
	@tools/debian_root.sh trixie amd64 build/qemu-root qemu-user-

# Runs tests of that build by qemu-aarch64 of Debian 13; docs/aarch64.md has the tests that an emulator cannot pass. Of the examples it
# leaves out ctypes_locks, for which this machine's Python would load the library.
ARM_TESTS = ^(unit\.(steady_rules_test|order_test|deadline_test|unwind_test|c_api_test)|traps\.(symbols|forks)|portable)$$|^examples\.[^c]
ARM_PROGRAMS = $(addprefix build/aarch64/tests/conformance/,mutex_calls semaphores moved_waiters exit startup standard_library)
test-arm: arm emulator
	@tests/aarch64/run.sh '$(ARM_TESTS)' $(TEST_JOBS) $(ARM_PROGRAMS)

# More of them, with a limit: see run_long.sh. The build for this machine is for the comparison of results.
ARM_LONG_TESTS = ^unit\.(every_lock_test|tickets_test)$$
ARM_LOCKS = steady mcs ticket twa clh mcscr loiter-park lifo-cr fairlock futex rwlock:phase-fair rwlock:bravo rwlock:phase-fair-mcs
test-arm-long: build arm emulator arm-systems
	@timeout --foreground 5400 tests/aarch64/run_long.sh $(BUILD) '$(ARM_LONG_TESTS)' '$(ARM_LOCKS)'

clean: ## use| delete all builds
	@rm -rf build

# ---- test ------------------------------------------------------------------------------------------------------------------------

# Unit tests, includes, the command, conformance of the default lock, and a mutant of each category.
QUICK = ^(unit\.|layers$$|cli$$|cli\.check$$|conformance\.(reference|steady)$$|check\.(quick|mutants)$$)
quick: build ## test| while you work: the core of the tests (90 seconds)
	@cd $(BUILD) && ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error -LE all-locks -R '$(QUICK)'

# The same tests as in the first minute after boot, in a time namespace: where uptime and deadlines are small. TESTS=.: all of `make test`.
test-young: build
	@cd $(BUILD) && python3 $(CURDIR)/tests/young/young.py ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error \
	  -LE 'all-locks|long' -R '$(or $(TESTS),$(QUICK))' || [ $$? = 77 ]

test-lab: build ## test| simulator, benchmarks, predictions, programs
	@cd $(BUILD) && ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error -L $(LAB) -LE 'all-locks|long'

test-long: build ## test| sanitizers, linking, a subproject, real programs
	@cd $(BUILD) && ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error -L '^long$$'

test-all: build ## test| all tests: also test-long, and those of each lock
	@cd $(BUILD) && ctest -j $(JOBS) --output-on-failure --no-tests=error

mutants: build
	@cmake --build $(BUILD) --target usher_check_mutants -j $(JOBS)

# The targets that `make build` leaves out: mutants, the demo's build, programs that only tools run.
rest: mutants demo-build
	@cmake --build $(BUILD) -j $(JOBS) --target contest_power

check: mutants ## test| relaxed-memory checker: locks, mutants (20 minutes)
	@$(BUILD)/bin/usher check --all --executions 40000 --threads 3 --threads 4 --jobs $(JOBS)
	@$(BUILD)/bin/usher check --mutants --executions 40000 --jobs $(JOBS)

# `make check` with few executions of everything, in about two minutes, for continuous integration.
check-short: mutants
	@python3 tests/check/short_run.py --build $(BUILD) --jobs $(JOBS)

# Runs all executions of two threads that differ from the plain one in at most three places: 5 minutes.
check-exhaustive: build
	@timeout 1800 $(BUILD)/bin/usher check --all --threads 2 --scheduler bound --differences 3 --programs 8 --executions 500000 --jobs $(JOBS)

# Hand-overs under Arm's memory model, by herd7 of Debian sid: a minute.
litmus:
	@tools/debian_root.sh sid amd64 build/sid-root herdtools7
	@python3 tests/litmus/run.py

# Ten trials of a lock against itself: usher try must find noise only.
check-aa: build
	@python3 tests/cli/aa_trials.py --build $(BUILD)

# Runs usher stat on programs whose cause of waiting is known: the fixed ones, then 60 random ones. SEED=1; a quarter of an hour.
check-causes: build
	@python3 -m lab.causes --build $(BUILD) --fixed --truth --json lab/results/causes/fixed.json; status=$$?; \
	  python3 -m lab.causes --build $(BUILD) --seed $(or $(SEED),1) --json lab/results/causes/drawn-$(or $(SEED),1).json && exit $$status

# Installs, uses and removes each package, on this machine.
test-release: release
	@tools/deps.sh wheel roots
	@python3 tests/package/test_wheel.py --wheel build/dist/usher_locks-*.whl
	@python3 tests/package/test_archives.py

# The programs of the tests in the build of a release, which by itself has no tests.
release-tests: release
	@tools/deps.sh build test
	@cmake -DUSHER_BUILD_TESTS=ON build/portable > build/portable/configure.log 2>&1 || { tail -30 build/portable/configure.log; exit 1; }
	@cmake --build build/portable -j $(JOBS) --target usher_test_programs

# As root: the commands of README's first sections, in a bare Debian 12.
front-door:
	@tools/deps.sh front-door
	@timeout --kill-after=10 3600 python3 tests/front_door/front_door.py

# In gVisor, by Debian's runsc: a minute.
test-gvisor: build
	@tools/deps.sh gvisor
	@timeout 1800 python3 tests/gvisor/run.py --build $(BUILD)

# As root. ONLY=bullseye: one system.
check-roots: release-tests ## test| the packages on Debian 11, 12, 13 and sid
	@tools/deps.sh wheel roots
	@python3 -m lab.roots $(if $(ONLY),--only $(ONLY))

compat: build ## test| unmodified programs under every lock (long)
	@tools/deps.sh compat
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 tools/compat.py --build $(BUILD)

# Public suites of read-write locks, under the C library's locks and ours: five minutes. Downloads sources of Debian packages, once.
suites: build
	@tools/debian_source.sh bookworm build/suites/sources posixtestsuite glibc gcc-12
	@python3 tests/conformance/suites.py --build $(BUILD) $(if $(ONLY),--only $(ONLY))

SOAK_SECONDS ?= 600
# SOAK_SECONDS=600 for all locks together, or SECONDS_PER_LOCK=N.
soak: build ## test| random traffic under every lock; SOAK_SECONDS=600
	@python3 tests/soak/run.py --build $(BUILD) --seconds $(SOAK_SECONDS) $(if $(SECONDS_PER_LOCK),--seconds-per-lock $(SECONDS_PER_LOCK))

# How often usher diff names a longer section, and is silent about two runs of one build; on a quiet machine, 4 minutes.
diff-pairs: build
	@USHER_BIN=$(BUILD)/bin/usher timeout 900 python3 tests/stat/diff_pairs.py

# Hangs in all languages, with the C library of Debian 13, which is loaded into build/look-trixie.
look-hangs: build
	@timeout 1200 python3 tests/look/hangs.py --build $(BUILD) --of all --debian trixie

# Hostile processes under usher top.
LOOKS ?= 10000
look-hostile: build
	@python3 tests/look/hostile.py --build $(BUILD) --programs $(BUILD)/tests/look --looks $(LOOKS)

# Runs each target of tests/fuzz for FUZZ_SECONDS under libFuzzer with AddressSanitizer and UBSan; status 1 if one finds an error. Kept
# inputs are in build/fuzz/corpus, those with errors in build/fuzz/found.
FUZZ_SECONDS ?= 60
FUZZ_FLAGS = -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow -g1 -O1
fuzz: deps
	@mkdir -p build/fuzz
	@cmake -S . -B build/fuzz -G Ninja -DUSHER_FUZZ=ON -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 \
	  '-DCMAKE_C_FLAGS=$(FUZZ_FLAGS)' '-DCMAKE_CXX_FLAGS=$(FUZZ_FLAGS)' '-DUSHER_LOCKS=steady;pthread' \
	  -DUSHER_BUILD_CHECKER=OFF -DUSHER_BUILD_EXAMPLES=OFF > build/fuzz/configure.log 2>&1 || { cat build/fuzz/configure.log; exit 1; }
	@cmake --build build/fuzz -j $(JOBS) --target usher_fuzz
	@python3 tests/fuzz/run.py --build build/fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

# ---- measure ---------------------------------------------------------------------------------------------------------------------

measure: build ## measure| uncontended cost, instructions, thread sweep (long)
	@tools/deps.sh peers
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 -m lab.costs.measure_cost --build $(BUILD)
	@python3 tools/count_instructions.py --build $(BUILD)
	@$(BUILD)/lab/programs/embedded_cost
	@$(BUILD)/bin/usher bench mutexbench --set shared=1 --locks all --threads 1,2,4,8,16,32,64 --seconds 10 --rounds 1 --details

# ONLY=faults: only waits that are too long (6 minutes).
measure-waits: build ## measure| condition variables, semaphores (over an hour)
	@python3 -m lab.costs.measure_waits --build $(BUILD) --out lab/results $(if $(ONLY),--only $(ONLY))

bench-sim: build
	@python3 tools/bench_sim.py --build $(BUILD)

# arena and arena-sim resume an interrupted run. LOCKS=a,b MINUTES=30; arena also has POINTS=REGEX.
arena: build ## measure| locks against the C library, paired rounds (an hour)
	@tools/deps.sh try compat
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 -m lab.arena run --build $(BUILD) --locks $(or $(LOCKS),steady) --minutes $(or $(MINUTES),60) $(if $(POINTS),--points '$(POINTS)'); \
	  status=$$?; python3 -m lab.arena report && exit $$status

# Measures the default lock on simulated machines, for two hours.
arena-sim: build
	python3 -m lab.arena.simulated --build $(BUILD) $(if $(LOCKS),--default $(LOCKS)) $(if $(MINUTES),--minutes $(MINUTES),--store)

# ---- pages: targets that measure what pages show ------------------------------------------------------------------------------------

# NAMES="waits roots": only these. lab/pages/README.md lists them.
pages: ## pages| pages of measurements, of stored results (seconds)
	@python3 -m lab.pages $(NAMES)

simulated-claims: build ## pages| claims of the papers, simulated (half an hour)
	python3 -m lab.claims.simulated --build $(BUILD) --write-doc --charts

# Published numbers, not calibrated on: 5 minutes.
held-out: build
	python3 -m lab.claims.held_out --build $(BUILD)

# try-cases resumes an interrupted run.
try-cases: build ## pages| usher try on real programs (over half an hour)
	@tools/deps.sh try
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 -m lab.cases.try_cases --build $(BUILD); status=$$?; python3 -m lab.cases.try_cases --write-doc && exit $$status

stat-cases: build
	@tools/deps.sh try compat
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 -m lab.cases.stat_cases --build $(BUILD) && python3 -m lab.cases.stat_cases --build $(BUILD) --cost && \
	  python3 -m lab.cases.stat_cases --build $(BUILD) --pairs && python3 -m lab.pages stat

# ---- develop ---------------------------------------------------------------------------------------------------------------------

# The manual page and the completions, from the options' help texts.
man: build
	@python3 tools/manual.py --build $(BUILD)

format: ## develop| clang-format of all sources; check-format only asks
	@tools/deps.sh develop
	@git ls-files '*.cpp' '*.hpp' '*.c' '*.h' | xargs clang-format-16 -i

check-format:
	@tools/deps.sh develop
	@# --dry-run would report each `}  // namespace usher::inline v2`, which clang-format 16 itself writes.
	@git ls-files '*.cpp' '*.hpp' '*.c' '*.h' | { status=0; while read -r file; do clang-format-16 "$$file" | cmp -s - "$$file" || \
	  { echo "$$file: not as make format lays it out"; status=1; }; done; exit $$status; }

tidy: build ## develop| clang-tidy over the sources
	@tools/deps.sh develop
	@(git ls-files 'library/c_api/*.cpp' 'library/catalog/*.cpp' 'library/preload/*.cpp' 'tool/*.cpp' 'check/command/*.cpp' 'support/*.cpp'; ls $(BUILD)/library/catalog/locks/*.cpp) | xargs clang-tidy-16 -p $(BUILD) --quiet

