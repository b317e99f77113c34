//! A shard of an OSD as a whole: its machine, its store and its connections, and the stages of a turn.
//!
//! Its runner, the daemon on a reactor or the simulator, owns sockets, timers, the device and the queues to other
//! shards. A turn of either goes by these stages, each for all that came:
//!
//! 1. what came is read: [`ShardMachine::on_wire`], and `device_done` of the store;
//! 2. it is handled: [`ShardMachine::on_shard_message`], [`ShardMachine::handle_messages`], timers;
//! 3. it is answered: [`ShardMachine::execute`], whose [`Outcome`]s are for the runner to carry out;
//! 4. the store gets its turn: [`ShardMachine::drain_store`].
//!
//! So the code of a stage is in the CPU's first cache for all messages but the first, which counts more than what they
//! execute (docs/performance.md), and one journal write is made for all that the turn submitted.
//!
//! Invariants: no IO, no clock, no randomness.

mod machine;

pub use machine::{Outcome, ShardMachine};
