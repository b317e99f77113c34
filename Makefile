# One-line targets; what they do lives in scripts/, xtask and the loligo binary.
.PHONY: up test check fix bench soak setup

up: setup
	cargo build --release -p loligo && scripts/up

test: setup
	cargo xtask test

check:
	cargo xtask check

fix:
	cargo fmt --all && cargo clippy --workspace --all-targets --fix --allow-dirty

bench: setup
	cargo build --release -p loligo && bench/side-by-side

soak: setup
	cargo xtask soak

setup:
	scripts/setup
