# linerate: make demo runs the main job on the lab, make test passes the tests. Both install what
# they need (Debian or Ubuntu, as root or with sudo).

CARGO ?= cargo
# The planted fault of the demo: half:NODE:RAIL:tx|rx|both, another of `linerate-lab help fault`, or none.
FAULT ?= half:node02:1:tx

.PHONY: help demo test lab lab-down lint perftest peers bench soak fuzz clean setup

help:
	@echo 'make demo        find a half-speed NIC on a lab of three VMs (FAULT=none: a healthy lab)'
	@echo 'make test        all tests, those on the lab too'
	@echo 'make lab         start the lab and leave it up (make lab-down ends it)'
	@echo 'make lint        formatting, clippy, licences and advisories'
	@echo 'make perftest    bandwidth beside ib_write_bw on the lab'
	@echo 'make peers       every way of moving data beside iperf3 and perftest on the lab'
	@echo 'make bench       what loopback TCP costs of CPU time, and whether it is accounted for rightly;'
	@echo '                 rounds until slow NICs and their causes are named, on simulated clusters; the'
	@echo '                 time of a frame of the dashboard, and of each form of report; how fast logs of NCCL'
	@echo '                 are read; what a comparison takes'
	@echo 'make fuzz        what linerate reads from others, each target for a minute (cargo-fuzz, nightly)'
	@echo 'make soak        every case of the lab on four nodes five times'

setup:
	@tests/lab/setup.sh

demo: setup
	@FAULT='$(FAULT)' tests/lab/demo.sh

test: setup
	$(CARGO) build --workspace --bins --tests
	LINERATE_LAB=require $(CARGO) test --workspace

lab: setup
	$(CARGO) run -q -p linerate-lab -- up $(if $(filter none,$(FAULT)),,--fault '$(FAULT)')

lab-down:
	$(CARGO) run -q -p linerate-lab -- down

lint: setup
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -q --no-deps --workspace
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --log-level error check; \
	else echo 'SKIPPED: cargo-deny is not installed (cargo install cargo-deny)'; fi

perftest: setup
	@tests/lab/perftest-ratio.sh

peers: setup
	@tests/lab/peers.sh

# ARGS='--quick' is a small one; `cargo bench --bench sweep -- --runs 100` has more runs. NODES='16 128'
# are the sizes of the runs that the dashboard shows.
bench:
	$(CARGO) bench --bench cost
	$(CARGO) bench --bench sweep -- $(ARGS)
	$(CARGO) bench --bench dashboard -- $(NODES)
	$(CARGO) bench --bench report
	$(CARGO) bench --bench nccl
	$(CARGO) bench --bench compare -- $(NODES)

soak: setup
	@tests/lab/soak.sh

# Without a sanitizer, see fuzz/Cargo.toml; what is found is kept in fuzz/corpus and fuzz/artifacts.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= nccl_log record frames config topology
fuzz:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || \
		{ echo 'cargo-fuzz is not installed: cargo install cargo-fuzz' >&2; exit 1; }
	@$(CARGO) +nightly --version >/dev/null 2>&1 || \
		{ echo 'there is no nightly toolchain: rustup toolchain install nightly' >&2; exit 1; }
	@for target in $(FUZZ_TARGETS); do \
		corpus="fuzz/corpus/$$target"; seeds="fuzz/seeds/$$target"; mkdir -p "$$corpus"; \
		if [ ! -e "$$seeds" ]; then seeds=; fi; \
		$(CARGO) +nightly fuzz run -s none -a $$target "$$corpus" $$seeds -- \
			-max_total_time=$(FUZZ_SECONDS) -max_len=65536 -rss_limit_mb=2048 || exit 1; \
	done

clean:
	$(CARGO) clean
