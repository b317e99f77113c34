//! What the system allows this process, as far as daemons depend on it.

/// Fewer descriptors than this are soon used up: a client has one connection to the monitor, and one to each OSD.
const DESCRIPTORS_LOW: u64 = 4_096;

/// Lets the process have as many descriptors as the system allows at most, and logs how many these are.
pub fn raise_limits() {
    match reactor::raise_descriptor_limit() {
        Ok(Some(limit)) if limit < DESCRIPTORS_LOW => tracing::warn!(
            limit,
            "few connections and files can be open at a time: the hard limit (ulimit -Hn, LimitNOFILE) is low"
        ),
        Ok(Some(limit)) => tracing::info!(limit, "connections and files that can be open at a time"),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the limit of open connections and files is not raised"),
    }
}
