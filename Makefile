# One-line targets; what they do lives in scripts/, xtask and the loligo binary.
.PHONY: up test check fix soak bench setup

up: setup
	cargo build --release -p loligo && scripts/up

test: setup
	cargo xtask test

check:
	cargo xtask check

fix:
	cargo fmt --all && cargo clippy --workspace --all-targets --fix --allow-dirty

soak: setup
	cargo xtask soak

bench:
	scripts/setup ceph-mon ceph-osd ceph-mgr && cargo build --release -p loligo
	bench/compare --document docs/performance.md

setup:
	scripts/setup
