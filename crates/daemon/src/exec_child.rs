//! What a child of a daemon is before it is the program that it was started for.

use std::{
    ffi::OsString,
    io::{Write, stderr},
    process,
};

pub use reactor::EXEC_CHILD;

/// EIO, as `rbd` tells of errors: another one would say something of the image, and may end what can be tried again.
const CANNOT_RUN: i32 = 5;

/// Becomes the program that `command` begins with, for process `parent`. Where that fails, says so and ends.
pub fn exec_child(parent: u32, command: &[OsString]) -> ! {
    if let Some((program, args)) = command.split_first() {
        let error = reactor::exec_child(parent, program, args);
        // Where it cannot be written, the exit status still tells.
        let _ = writeln!(stderr(), "cannot run {}: {error}", program.display());
    }
    process::exit(CANNOT_RUN)
}
