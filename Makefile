# The front door. `make demo` and `make test` work from a fresh clone on Debian 12; CMake does the building.
BUILD ?= build/release
JOBS ?= $(shell nproc)
# Many tests sleep for much of their time.
TEST_JOBS ?= $(shell expr $(JOBS) + 2)

.PHONY: help deps build demo test test-all mutants check check-exhaustive check-aa compat soak measure measure-waits bench-sim simulated-claims held-out try-cases stat-cases arena arena-sim format check-format tidy install deb clean

help: ## what there is; JOBS=N, BUILD=folder and PREFIX=folder can be given
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

deps: ## install the Debian packages of packages.txt that are missing
	@tools/deps.sh

build: deps ## build everything
	@mkdir -p $(BUILD)
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; echo "If this folder was moved or copied: make clean"; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS)

# In a folder of its own: a few locks, no tests.
DEMO ?= build/demo
DEMO_PARTS = -DUSHER_LOCKS='steady;loiter;futex;mcscr;ttas;twa;pthread' -DBUILD_TESTING=OFF -DUSHER_BUILD_PROGRAMS=ON \
  -DUSHER_BUILD_SIMULATOR=OFF -DUSHER_BUILD_CHECKER=OFF -DUSHER_BUILD_EXAMPLES=OFF -DUSHER_INSTALL=OFF

demo: ## usher try on three real programs; builds what that takes (4 minutes on 2 cores)
	@tools/deps.sh build demo
	@mkdir -p $(DEMO)
	@cmake -S . -B $(DEMO) -G Ninja -DCMAKE_BUILD_TYPE=Release $(DEMO_PARTS) > $(DEMO)/configure.log 2>&1 || { cat $(DEMO)/configure.log; exit 1; }
	@cmake --build $(DEMO) -j $(JOBS) --target usher usher_preload usher_stat sqlite_shared
	@tools/demo.sh $(DEMO)

test: build ## the tests; within 12 minutes on 2 cores
	@cd $(BUILD) && ctest -j $(TEST_JOBS) --output-on-failure --no-tests=error -LE all-locks

test-all: build ## the same, with what is long tested for every lock of the catalogue (long)
	@cd $(BUILD) && ctest -j $(JOBS) --output-on-failure --no-tests=error

mutants: build ## all mutants of the locks, for usher check
	@cmake --build $(BUILD) --target usher_check_mutants -j $(JOBS)

check: mutants ## every lock under the relaxed-memory checker, and the mistakes that it must catch (long)
	@$(BUILD)/bin/usher check --all --executions 40000 --threads 3 --threads 4 --jobs $(JOBS)
	@$(BUILD)/bin/usher check --mutants --executions 40000 --jobs $(JOBS)

check-exhaustive: build ## every lock with two threads: all executions with up to three differences from the plain one (5 minutes)
	@timeout 1800 $(BUILD)/bin/usher check --all --threads 2 --scheduler bound --differences 3 --programs 8 --executions 500000 --jobs $(JOBS)

check-aa: build ## usher try compares the C library with itself, ten times: it must see noise
	@python3 tests/cli/aa_trials.py --build $(BUILD)

compat: build ## unmodified programs under every lock (long)
	@tools/deps.sh compat
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 tools/compat.py --build $(BUILD)

SOAK_SECONDS ?= 600
soak: build ## mixed random traffic under every lock; SOAK_SECONDS=600 in all, or SECONDS_PER_LOCK=N
	@python3 tests/soak/run.py --build $(BUILD) --seconds $(SOAK_SECONDS) $(if $(SECONDS_PER_LOCK),--seconds-per-lock $(SECONDS_PER_LOCK))

measure: build ## wall time of uncontended pairs, instruction counts, the thread sweep (long)
	@tools/deps.sh peers
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 tools/measure_cost.py --build $(BUILD)
	@python3 tools/count_instructions.py --build $(BUILD)
	@$(BUILD)/apps/embedded_cost
	@$(BUILD)/bin/usher bench mutexbench --set shared=1 --locks all --threads 1,2,4,8,16,32,64 --seconds 10 --rounds 1 --details

measure-waits: build ## condition variables and semaphores: cost, and whom they wake (over an hour); ONLY=faults: waits that were too long (6 minutes)
	@python3 tools/measure_waits.py --build $(BUILD) --out docs/measurements --before results/faults-before.json $(if $(ONLY),--only $(ONLY))

bench-sim: build ## how fast the simulator is, in CPU time; fails beyond its limits (about a minute)
	@python3 tools/bench_sim.py --build $(BUILD)

simulated-claims: build ## what the papers claim of machines that are not there (twenty minutes)
	tools/simulated_claims.py --build $(BUILD) --write-doc

held-out: build ## published numbers that nothing was set by, simulated, into docs/held-out.md (a few minutes)
	tools/held_out.py --build $(BUILD) --write-doc

try-cases: build ## usher try on real programs, into docs/try.md (over half an hour; resumes where it ended)
	@tools/deps.sh try
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 tools/try_cases.py --build $(BUILD); status=$$?; python3 tools/try_cases.py --write-doc && exit $$status

stat-cases: build ## usher stat on real programs, and what it costs them, into docs/stat.md (a quarter of an hour)
	@tools/deps.sh try compat
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 tools/stat_cases.py --build $(BUILD) && python3 tools/stat_cases.py --build $(BUILD) --cost && \
	  python3 tools/stat_cases.py --build $(BUILD) --pairs && python3 tools/stat_cases.py --write-doc

arena: build ## locks against the C library, in paired rounds, into docs/measurements/arena.md (an hour; resumes); LOCKS=a,b MINUTES=30 POINTS=REGEX
	@tools/deps.sh try compat
	@cmake -S . -B $(BUILD) > /dev/null && cmake --build $(BUILD) -j $(JOBS)
	@python3 tools/arena.py run --build $(BUILD) --locks $(or $(LOCKS),steady) --minutes $(or $(MINUTES),60) $(if $(POINTS),--points '$(POINTS)'); \
	  status=$$?; python3 tools/arena.py report && exit $$status

arena-sim: build ## the default against the best lock of each point on simulated machines (an hour or two on 2 cores; resumes); LOCKS=a,b MINUTES=30
	tools/arena_sim.py --build $(BUILD) $(if $(LOCKS),--default $(LOCKS)) $(if $(MINUTES),--minutes $(MINUTES),--write-doc)

format: ## run the formatter
	@tools/deps.sh develop
	@git ls-files '*.cpp' '*.hpp' '*.c' '*.h' | xargs clang-format-16 -i

check-format: ## fail where the formatter would change something
	@tools/deps.sh develop
	@# Not by --dry-run: clang-format 16 then complains of each `}  // namespace usher::inline v1` that it would write itself.
	@git ls-files '*.cpp' '*.hpp' '*.c' '*.h' | { status=0; while read -r file; do clang-format-16 "$$file" | cmp -s - "$$file" || \
	  { echo "$$file: not as make format lays it out"; status=1; }; done; exit $$status; }

tidy: build ## clang-tidy over the sources
	@tools/deps.sh develop
	@(git ls-files 'src/c_api/*.cpp' 'src/catalog/*.cpp' 'src/preload/*.cpp' 'src/cli/*.cpp'; ls $(BUILD)/src/catalog/locks/*.cpp) | xargs clang-tidy-16 -p $(BUILD) --quiet

install: build ## install below PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

deb: ## build Debian packages, and say how to install them
	@tools/deps.sh build package
	@tools/deb.sh $(BUILD)/deb $(JOBS)

clean: ## forget all builds
	@rm -rf build
