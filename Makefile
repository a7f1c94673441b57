# Each step of the continuous integration is one of these targets.
.DEFAULT_GOAL := help
CARGO ?= cargo
# Go is often unpacked by hand, and servers are in sbin.
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin

TARGET := $(or $(CARGO_TARGET_DIR),target)
DIST := $(TARGET)/dist
HOST := $(or $(shell $(or $(RUSTC),rustc) -vV 2>/dev/null | sed -n 's/^host: //p'),x86_64-unknown-linux-gnu)
ARM64 := aarch64-unknown-linux-gnu
# The target that cross-builds the arm64 binaries; none on an arm64 machine, which builds for itself only.
CROSS := $(if $(filter $(ARM64),$(HOST)),,dist-static-arm64)

.PHONY: help setup setup-fastclock demo check quick test test-root test-vm test-kernels instructions test-callers \
	test-signals test-containers test-foreign test-foreign-quick test-sites test-survey test-sweep test-fleet test-deploy \
	test-unit bench aa-pairs exec-timeline man build install uninstall test-install dist dist-shared dist-static dist-static-arm64 \
	test-static-arm64 deb rpm tarball sbom test-packages reproducible checksums fuzz packaged fastclock oldest supply \
	prove mutate many-captures big-log header install-c

help: ## this list; CONTRIBUTING.md has all others
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: ## install what the tests use, from Debian's packages, if it is missing
	@scripts/setup.sh test

# One system of each kind: 32 bits, another CPU's counter, no 64-bit atomics, other operating systems, no operating
# system.
SYSTEMS := i686-unknown-linux-gnu aarch64-unknown-linux-gnu powerpc-unknown-linux-gnu x86_64-pc-windows-gnu \
	aarch64-apple-darwin x86_64-unknown-freebsd wasm32-wasip1 x86_64-unknown-none
setup-fastclock:
	@scripts/setup.sh fastclock $(SYSTEMS)

# Installs the packages for another part: build, demo, bench, unit, vm, fleet, kernels, foreign, oldest, containers,
# prove, release.
setup-%:
	@scripts/setup.sh $*

demo: setup-demo ## show what clockscope does on a real program
	@demo/demo.sh

check: setup-build ## format, lints, documentation, rules of the house
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTFLAGS='--cfg clockscope_image' $(CARGO) clippy --package vdso-image \
		--target-dir $(TARGET)/image-check -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps
	scripts/aarch64.sh check
	$(CARGO) test --quiet --package clockscope --test tidy

quick: setup-build ## formatting, lints, unit tests and examples: what a change is checked by while it is made (2 minutes)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --quiet --workspace --lib
	$(CARGO) test --quiet --workspace --doc

# Lists the failed and the skipped tests at the end; with CI=1 a skip is a failure.
COUNTING_SKIPS := scripts/counting-skips.sh $(TARGET)/skips
ALL_TESTS := $(CARGO) test --workspace --no-fail-fast
test: setup ## build the release binaries, run all tests, and make packages
	$(CARGO) build --release --package clockscope --package fastclock-c
	$(CARGO) build --release --package fastclock-c --example fastclock_preload
	@$(COUNTING_SKIPS) sh -c '$(ALL_TESTS); code=$$?; packaging/test-build $(TARGET) || code=1; exit $$code'

test-root: setup ## all tests as root, also those that are left out otherwise
	[ "$$(id -u)" = 0 ] || export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='sudo -E'; \
		$(COUNTING_SKIPS) $(ALL_TESTS) -- --include-ignored

# `make test-vm BOOTS=hpet` boots this machine only, so the tests of the others fail or read old results.
test-vm: setup-vm ## boot machines whose clock is slow (without KVM; minutes) and test what clockscope makes of them
	$(CARGO) build --release --package clockscope --package fastclock-c
	vm/test $(TARGET)/release/clockscope $(TARGET)/vm $(BOOTS)
	CLOCKSCOPE_VM_RESULTS=$(abspath $(TARGET)/vm) $(CARGO) test --package clockscope --test quiet -- --ignored vm::

# `make test-kernels KERNELS=x86_64-7.3` boots that kernel only.
test-kernels: setup-kernels ## boot Linux 5.10, 6.1, 6.12 and 7.3 (without KVM; minutes): count, run and attach on x86-64 and arm64
	$(CARGO) build --release --package clockscope
	vm/test-kernels $(TARGET)/release/clockscope $(TARGET)/kernels $(KERNELS)
	CLOCKSCOPE_KERNELS_RESULTS=$(abspath $(TARGET)/kernels) $(CARGO) test --quiet --package clockscope --test quiet -- \
		--ignored --nocapture kernels::

# After `make test-kernels`, which fetches the kernels and builds the programs.
instructions: # count the instructions of a call of clock_gettime without and with clockscope's count, in QEMU (after test-kernels; minutes)
	CLOCKSCOPE=$(TARGET)/release/clockscope vm/instructions $(TARGET)/kernels x86_64-6.12 aarch64-6.12

# `make test-callers JVMS='/opt/jdk-21/bin/java'` adds a JVM to the ones below /usr/lib/jvm; NODES and PYTHONS likewise.
JVMS ?=
NODES ?=
PYTHONS ?=
test-callers: setup # callers in all languages against what programs say of themselves, with many samples; half an hour
	THOROUGH=1 JVMS="$(JVMS)" NODES="$(NODES)" PYTHONS="$(PYTHONS)" $(CARGO) test --package clockscope --test measured callers -- \
		--include-ignored --nocapture --test-threads 1

# `make test-signals ATTACHMENTS=20` is a shorter run.
ATTACHMENTS ?= 200
test-signals: setup # attach to programs with timers and signals, 200 times in each cell of a matrix; half an hour
	$(CARGO) build --release --package clockscope
	CLOCKSCOPE_ATTACHMENTS=$(ATTACHMENTS) CLOCKSCOPE_UNDER_TEST=$(abspath $(TARGET))/release/clockscope \
		$(CARGO) test --package clockscope --test traced -- \
		--ignored --nocapture the_matrix

# `make test-containers CELLS='--attachments 3 --cell namespace'` is a shorter run of a part.
CELLS ?=
test-containers: setup-containers # attach to a program in real containers, 50 times in each cell of a matrix, and compare counts (root; 10 minutes)
	$(CARGO) build --release --package clockscope
	$(AS_ROOT) tests/containers/matrix.py $(TARGET)/release/clockscope $(TARGET)/containers $(CELLS)

# `make test-foreign FOREIGN='--suite go --mode attach'` runs a part of them.
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E env "PATH=$$PATH")
test-foreign: setup-foreign ## other people's test suites, plainly and under clockscope, compared name by name (root; half an hour)
	$(CARGO) build --release --package clockscope
	python3 tests/foreign/planted.py
	$(AS_ROOT) tests/foreign/run.py $(TARGET)/release/clockscope $(TARGET)/foreign $(FOREIGN)

test-foreign-quick: setup-foreign # the most telling of them, in minutes
	$(CARGO) build --release --package clockscope
	python3 tests/foreign/planted.py
	$(AS_ROOT) tests/foreign/run.py $(TARGET)/release/clockscope $(TARGET)/foreign --quick $(FOREIGN)

# `make test-sites PROGRAMS='--program nginx'` runs one program only.
PROGRAMS ?=
test-sites: setup # count the system calls of databases, servers, runtimes, a browser and a build in two ways at once, and compare (root; a minute)
	$(CARGO) build --release --package clockscope
	$(AS_ROOT) tests/sites/real.py $(TARGET)/release/clockscope $(TARGET)/sites $(PROGRAMS)

# `make test-survey ROUNDS=3` is a shorter run.
ROUNDS ?= 20
test-survey: setup # survey a machine with PostgreSQL, Redis, nginx, JVMs and Go servers, and compare estimates with counts; also programs of known rates (root; 12 minutes)
	$(CARGO) build --release --package clockscope
	$(CARGO) test --package clockscope --test measured -- --ignored --nocapture intervals_hold_what
	$(AS_ROOT) tests/survey/real.py $(TARGET)/release/clockscope $(TARGET)/survey --rounds $(ROUNDS)

# `make test-sweep SWEEP="--only 'a*'"` runs a part of the programs.
SWEEP ?=
test-sweep: # run every program of /usr/bin and /usr/sbin plainly and traced, and compare (as an ordinary user; 20 minutes)
	$(CARGO) build --release --package clockscope
	@scripts/sweep.py $(TARGET)/release/clockscope $(SWEEP)

# One script after another; a script names the packages that it needs.
test-fleet: setup-fleet # 200 recorded machines under Prometheus, Alertmanager and node_exporter: which alerts arrive; the dashboard (a minute)
	$(CARGO) build --release --package clockscope
	tests/fleet/prometheus.py $(TARGET)/release/clockscope $(TARGET)/fleet
	tests/fleet/dashboard.py $(TARGET)/fleet

test-deploy: setup-fleet # the Ansible role on a booted Debian, the Helm chart rendered and run in podman, many captures under GNU parallel, DuckDB and a Job (as root; minutes)
	$(CARGO) build --release --package clockscope
	tests/fleet/tools $(TARGET)/fleet
	$(TARGET)/fleet/venv/bin/python tests/fleet/captures.py $(TARGET)/release/clockscope
	$(AS_ROOT) tests/fleet/ansible $(TARGET)/release/clockscope $(TARGET)/fleet/ansible
	$(AS_ROOT) $(TARGET)/fleet/venv/bin/python tests/fleet/chart.py $(TARGET)/release/clockscope $(TARGET)/fleet $(TARGET)/fleet/ansible

test-unit: setup-unit # boot the systemd unit of serve in a container and read its page as a user (as root; 10 s)
	$(CARGO) build --release --package clockscope --package fastclock-c
	packaging/test $(TARGET)/release/clockscope $(TARGET)/release/libfastclock.a $(TARGET)/unit

# `make bench SECTIONS=fastclock,start` measures these sections only, and writes them to a page of their own.
# docs/performance.md is written by hand from such a page.
BENCH_PAGE := $(abspath $(TARGET))/bench/$(if $(SECTIONS),sections,peers).md
bench: setup-bench ## compare with strace, perf, quanta and others: ratios with intervals, in target/bench/peers.md
	@mkdir -p $(dir $(BENCH_PAGE))
	$(CARGO) bench --package clockscope --bench peers -- --markdown $(BENCH_PAGE) $(SECTIONS)

exec-timeline: # draw what an execve under trace waits for, in microseconds (root, perf)
	$(CARGO) build --release --package clockscope
	@scripts/exec-timeline.sh $(TARGET)/release/clockscope $(TARGET) --via none

# `make aa-pairs AA_OPTIONS=` measures with three launches each, which takes five minutes.
AA_FILES ?= 21
AA_OPTIONS ?= --quick
AA := $(TARGET)/aa-pairs
aa-pairs: # measure the same machine 21 times: of 210 pairs, how many does compare call changed?
	$(CARGO) build --release --package clockscope
	rm -rf $(AA)
	@scripts/aa-pairs.sh $(TARGET)/release/clockscope $(AA) $(AA_FILES) $(AA_OPTIONS)

# The manual pages carry the date of the commit, so that two builds of a commit are equal.
man: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
man: # the manual pages, in target/man
	$(CARGO) run --quiet --package clockscope --example man -- $(TARGET)/man
	@ls $(TARGET)/man/*.1

build: setup-build ## the command, the C library and the manual pages
	$(CARGO) build --release --package clockscope --package fastclock-c
	$(CARGO) build --release --package fastclock-c --example fastclock_preload
	@$(MAKE) man

# `sudo make install` installs the files that `make build` has built, because root usually has no cargo.
PREFIX ?= /usr/local
install: ## build, and install below PREFIX (/usr/local); DESTDIR, LIBDIR and ZSHDIR are honoured
	@! command -v $(CARGO) >/dev/null 2>&1 || $(MAKE) build
	@DESTDIR="$(DESTDIR)" scripts/install.sh install "$(PREFIX)"

uninstall: ## remove what `make install` has installed below PREFIX
	@DESTDIR="$(DESTDIR)" scripts/install.sh uninstall "$(PREFIX)"

test-install: # install into a folder and uninstall (needs what `make build` builds; seconds)
	@packaging/test-install

# The shipped binaries have their own target folder, because they are built with other options.
SHIPPED := $(TARGET)/shipped
release-build = CARGO_TARGET_DIR=$(SHIPPED) scripts/release-build.sh
packages = CARGO_TARGET_DIR=$(SHIPPED) scripts/packages.sh
# All files in packages get the time of the last commit.
deb rpm tarball sbom: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)

dist: dist-shared dist-static $(CROSS) ## stripped binaries, two of them without any shared library: for this machine and for arm64
	@mkdir -p $(DIST)
	strip -o $(DIST)/clockscope $(SHIPPED)/release/clockscope
	strip -o $(DIST)/clockscope-static $(SHIPPED)/$(HOST)/release/clockscope
	@for file in clockscope clockscope-static $(if $(CROSS),clockscope-static-arm64); do \
		size=$$(wc -c <$(DIST)/$$file); echo "$(DIST)/$$file: $$size bytes"; done

dist-shared: setup-build
	$(release-build) shared
	@$(MAKE) man
	@rm -rf $(SHIPPED)/man && cp -R $(TARGET)/man $(SHIPPED)/man

dist-static: setup-build
	$(release-build) static

# The C library of arm64 is unpacked from Debian's packages, without installing it.
dist-static-arm64: setup-build
	@mkdir -p $(DIST)
	SYSROOT=$$(vm/sysroot $(TARGET)/kernels/kernels) $(release-build) static-arm64
	cp $(SHIPPED)/$(ARM64)/release/clockscope $(DIST)/clockscope-static-arm64

test-static-arm64: setup-kernels dist-static-arm64 # the suite of test-kernels on arm64 with the binary of dist (without KVM; minutes)
	CLOCKSCOPE_VM_ARM64_COMMAND=$(abspath $(DIST)/clockscope-static-arm64) $(MAKE) test-kernels KERNELS=aarch64-6.12

deb: setup-release dist-shared ## packages for Debian and Ubuntu: clockscope, libfastclock0, libfastclock-dev
	@$(packages) deb
	packaging/lint deb $(SHIPPED)/packages

rpm: setup-release dist-shared ## packages for Fedora, SUSE and others
	@$(packages) rpm
	packaging/lint rpm $(SHIPPED)/packages

tarball: setup-release dist-shared dist-static $(CROSS) # the static binaries, each with pages, completions and licences
	@$(packages) tarball

sbom: setup-release # the crates that the command is made of, in the form of CycloneDX, beside the packages
	@$(packages) sbom

test-packages: deb tarball # install, run, upgrade, remove and purge the packages in a container; trace in an empty root (as root; minutes)
	packaging/test-packages $(SHIPPED)/packages $(SHIPPED)/$(HOST)/release/clockscope $(TARGET)/unit

reproducible: setup-release # two builds in different folders must be the same byte for byte (a quarter of an hour)
	@scripts/reproducible.sh $(TARGET)

checksums: setup-release # list the checksums of the packages, signed by minisign with KEY=FILE
	@[ -n "$(KEY)" ] || { echo 'checksums: say which key: make checksums KEY=release.key' >&2; exit 1; }
	@cd $(SHIPPED)/packages && rm -f SHA256SUMS SHA256SUMS.minisig && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .
	minisign -S -s "$(KEY)" -m $(SHIPPED)/packages/SHA256SUMS

# A minute finds gross faults. After a change of a reader, use `make fuzz FUZZ_SECONDS=600`.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= log archive vdso unwind go_table mini_debug jitdump perf_map records numbers compare page \
	container_state seccomp filter sites
fuzz: ## give each reader of foreign bytes damaged input, FUZZ_SECONDS each (60)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZ_TARGETS)

packaged: setup-build # build every crate from its package alone, and count with the command built so
	@scripts/packaged.sh $(TARGET)

fastclock: setup-fastclock ## fastclock as its users build it: oldest compiler, features, other systems, its package (2 minutes)
	@scripts/fastclock.sh $(TARGET) $(SYSTEMS)

oldest: setup-oldest # build all crates with the oldest compiler that Cargo.toml promises (2 minutes)
	@scripts/oldest.sh $(TARGET)

# `make supply BASELINE=v0.1.0` compares fastclock's interface with this revision's.
supply: oldest ## licences and sources of dependencies, the oldest compiler, the interface of fastclock
	@scripts/supply.sh $(BASELINE)

prove: setup-prove # prove the clock page's protocol and arithmetic, and find planted faults (minutes)
	@scripts/prove.py $(TARGET)

# `make mutate MUTATIONS=500` takes two minutes; `make test` damages each machine in 40 ways.
MUTATIONS ?= 5000
mutate: # damage the recorded machines' logs in 5000 ways each (drop, cut, fold, reorder, prefix), and hold doctor's labels against the rest; 10 to 20 minutes
	CLOCKSCOPE_MUTATIONS=$(MUTATIONS) $(CARGO) test --package clock-doctor --lib -- --nocapture damaged_logs

# `make many-captures CAPTURES=1000` is a shorter run.
CAPTURES ?= 10000
many-captures: # judge 10,000 captures of which 1 % are damaged: seconds, memory, and whether each is named
	$(CARGO) build --release --package clockscope
	@scripts/many-captures.py $(TARGET)/release/clockscope $(TARGET)/many-captures $(CAPTURES)

big-log: # read logs of 1 GiB: seconds and memory
	$(CARGO) build --release --package clockscope
	@scripts/big-log.sh $(TARGET)/release/clockscope

header: # write fastclock.h from the Rust
	WRITE_HEADER=1 $(CARGO) test --quiet --package fastclock-c --test c the_header_is

install-c: # build and install the C library of fastclock below PREFIX (/usr/local); DESTDIR is honoured
	@DESTDIR="$(DESTDIR)" scripts/install-c.sh "$(PREFIX)"
