# One-line targets; what they do lives in scripts/, xtask and the loligo binary.
.PHONY: up release test check fix soak bench setup

up:
	scripts/setup run && scripts/release --trained && scripts/up

release:
	scripts/setup run bolt-19 && scripts/release

test: setup
	cargo xtask test

check:
	cargo xtask check

fix:
	cargo fmt --all && cargo clippy --workspace --all-targets --fix --allow-dirty

soak: setup
	cargo xtask soak

bench:
	scripts/setup run bolt-19 ceph-mon ceph-osd ceph-mgr && scripts/release
	cargo build --profile count -p reactor --example floor
	bench/compare --document docs/performance.md

setup:
	scripts/setup test
