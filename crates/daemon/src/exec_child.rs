//! What a child of a daemon is before it is the program that it was started for.

use std::{
    ffi::OsString,
    io::{Write, stderr},
    process,
};

pub use reactor::EXEC_CHILD;

/// How it ends where it cannot become that program. No errno is so large, which is what `rbd` ends with.
pub(crate) const CANNOT_RUN: i32 = 255;

/// Becomes the program that `command` begins with, for process `parent`. Where that fails, says so and ends.
pub fn exec_child(parent: u32, command: &[OsString]) -> ! {
    if let Some((program, args)) = command.split_first() {
        let error = reactor::exec_child(parent, program, args);
        // Where it cannot be written, the exit status still tells.
        let _ = writeln!(stderr(), "{error}");
    }
    process::exit(CANNOT_RUN)
}
