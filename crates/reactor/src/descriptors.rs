//! How many descriptors the process may have: one for each connection and file.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, and returns it; `None` where there is no limit. The soft one is low (1,024)
/// for the sake of programs that call `select`, which nothing here does.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    }
    Ok(limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        // One less than there may be: nothing that runs meanwhile misses it.
        let lower = hard.map(|limit| limit - 1);
        setrlimit(Resource::Nofile, Rlimit { current: lower, maximum: hard }).unwrap();
        assert_eq!(raise_descriptor_limit().unwrap(), hard);
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
