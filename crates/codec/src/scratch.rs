//! Memory that encoders use again and again.

use std::cell::Cell;

use bytes::Bytes;

/// Encoded bytes up to this length are copied out of the thread's buffer; longer ones keep the buffer's memory.
const COPY_BYTES_MAX: usize = 4 << 10;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What `write` appends to an empty vector, in memory of just that size: most of what is encoded is
/// small, and growing a vector for it costs more than the encoding.
pub(crate) fn collect(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    // An encoder that comes here again meanwhile finds an empty vector and leaves the larger one.
    let mut out = BUFFER.take();
    write(&mut out);
    if out.len() > COPY_BYTES_MAX {
        return Bytes::from(out);
    }
    let bytes = Bytes::copy_from_slice(&out);
    out.clear();
    BUFFER.set(out);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_and_large_ones_keep_apart() {
        let outer = collect(|out| {
            out.extend_from_slice(b"one");
            let inner = collect(|out| out.extend_from_slice(b"two"));
            out.extend_from_slice(&inner);
        });
        assert_eq!(outer, "onetwo");
        let large = collect(|out| out.resize(COPY_BYTES_MAX + 1, 7));
        assert_eq!(large.len(), COPY_BYTES_MAX + 1);
        assert_eq!(collect(|_| ()), "");
    }
}
