//! An op in words, as operators read it (`MOSDOp::print`, `operator<<(ostream&, const OSDOp&)` of 16.2). The text is
//! made only when an operator asks for it, not while an op is executed.

use std::fmt::Write;

use types::{EntityNum, SnapId};

use crate::{MOSDOp, OpCode, OsdOp, watch_op};

/// Names of `CEPH_OSD_FLAG_*`, by bit.
const FLAGS: [&str; 28] = [
    "ack",
    "onnvram",
    "ondisk",
    "retry",
    "read",
    "write",
    "ordersnap",
    "peerstat_old",
    "balance_reads",
    "parallelexec",
    "pgop",
    "exec",
    "exec_public",
    "localize_reads",
    "rwordered",
    "ignore_cache",
    "skiprwlocks",
    "ignore_overlay",
    "flush",
    "map_snap_clone",
    "enforce_snapc",
    "redirected",
    "known_if_redirected",
    "full_try",
    "full_force",
    "ignore_redirect",
    "returnvec",
    "supports_pool_eio",
];

/// Names of `CEPH_OSD_OP_FLAG_*`, by bit.
const OP_FLAGS: [&str; 7] = [
    "excl",
    "failok",
    "fadvise_random",
    "fadvise_sequential",
    "fadvise_willneed",
    "fadvise_dontneed",
    "fadvise_nocache",
];

fn flag_names(flags: u32, names: &[&str]) -> String {
    let set = names.iter().enumerate().filter(|(bit, _)| flags & 1 << bit != 0).map(|(_, name)| *name);
    match set.collect::<Vec<_>>().join("+") {
        none if none.is_empty() => "-".to_owned(),
        names => names,
    }
}

/// What Ceph calls an op.
fn op_name(code: OpCode) -> String {
    let special = match code {
        OpCode::ASSERT_VER => "assert-version",
        OpCode::SYNC_READ => "sync_read",
        OpCode::OMAPGETKEYS => "omap-get-keys",
        OpCode::OMAPGETVALS => "omap-get-vals",
        OpCode::OMAPGETHEADER => "omap-get-header",
        OpCode::OMAPGETVALSBYKEYS => "omap-get-vals-by-keys",
        OpCode::OMAPSETVALS => "omap-set-vals",
        OpCode::OMAPSETHEADER => "omap-set-header",
        OpCode::OMAPCLEAR => "omap-clear",
        OpCode::OMAPRMKEYS => "omap-rm-keys",
        OpCode::OMAPRMKEYRANGE => "omap-rm-key-range",
        OpCode::SETALLOCHINT => "set-alloc-hint",
        _ => return code.name().map_or("???".to_owned(), |name| name.to_lowercase().replace('_', "-")),
    };
    special.to_owned()
}

fn watch_name(what: u8) -> &'static str {
    match what {
        watch_op::UNWATCH => "unwatch",
        watch_op::LEGACY_WATCH => "watch-legacy",
        watch_op::WATCH => "watch",
        watch_op::RECONNECT => "reconnect",
        watch_op::PING => "ping",
        _ => "???",
    }
}

impl OsdOp {
    /// `write 0~4096 in=4096b`.
    fn describe(&self) -> String {
        let mut out = op_name(self.code);
        let params = &self.params;
        let truncation = (params.u32_at(24), params.u64_at(16) as i64);
        let words = |range: std::ops::Range<usize>| {
            self.data.get(range).map(|bytes| bytes.escape_ascii().to_string()).unwrap_or_default()
        };
        let put = match self.code {
            OpCode::READ
            | OpCode::SPARSE_READ
            | OpCode::SYNC_READ
            | OpCode::WRITE
            | OpCode::WRITEFULL
            | OpCode::ZERO
            | OpCode::APPEND
            | OpCode::MAPEXT
            | OpCode::CMPEXT => {
                let (seq, size) = truncation;
                let cut = if seq == 0 { String::new() } else { format!(" [{seq}@{size}]") };
                let flags = match self.flags {
                    0 => String::new(),
                    flags => format!(" [{}]", flag_names(flags, &OP_FLAGS)),
                };
                write!(out, " {}~{}{cut}{flags}", params.offset(), params.length())
            }
            OpCode::ASSERT_VER => write!(out, " v{}", params.u64_at(8)),
            OpCode::TRUNCATE => write!(out, " {}", params.offset()),
            OpCode::MASKTRUNC | OpCode::TRIMTRUNC => write!(out, " {}@{}", truncation.0, truncation.1),
            OpCode::ROLLBACK => write!(out, " {}", params.snap()),
            OpCode::WATCH => write!(out, " {} cookie {}", watch_name(self.watch_op()), params.u64_at(0)),
            OpCode::NOTIFY => write!(out, " cookie {}", params.u64_at(0)),
            OpCode::COPY_GET => write!(out, " max {}", params.u64_at(0)),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => write!(out, " ver {}", params.u64_at(8)),
            OpCode::SETALLOCHINT => {
                write!(out, " object_size {} write_size {}", params.u64_at(0), params.u64_at(8))
            }
            OpCode::SETXATTR | OpCode::RMXATTR | OpCode::GETXATTR | OpCode::CMPXATTR => {
                write!(out, " {} ({})", words(0..params.u32_at(0) as usize), params.u32_at(4))
            }
            OpCode::CALL => {
                let (class, method) = self.call_names().unwrap_or_default();
                write!(out, " {}.{}", class.escape_ascii(), method.escape_ascii())
            }
            OpCode::PGLS | OpCode::PGLS_FILTER | OpCode::PGNLS | OpCode::PGNLS_FILTER => {
                write!(out, " start_epoch {}", params.u32_at(8))
            }
            _ => Ok(()),
        };
        put.expect("text has room");
        if !self.data.is_empty() {
            write!(out, " in={}b", self.data.len()).expect("text has room");
        }
        out
    }
}

impl MOSDOp {
    /// `osd_op(client.4123.0:7 1.0 1:602f83fe:::foo:head [write 0~4096 in=4096b] snapc 0=[] ondisk+write e12)`.
    pub fn describe(&self, client: &EntityNum, tid: u64) -> String {
        let ops: Vec<String> = self.ops.iter().map(OsdOp::describe).collect();
        let snaps: Vec<String> = self.snapc.snaps.iter().map(SnapId::to_string).collect();
        let retry = match self.retry_attempt {
            attempt if attempt > 0 => format!(" RETRY={attempt}"),
            _ => String::new(),
        };
        format!(
            "osd_op({client}.{}:{tid} {} {} [{}] snapc {}=[{}]{retry} {} e{})",
            self.client_inc as i32,
            self.pgid,
            self.object(),
            ops.join(","),
            self.snapc.seq,
            snaps.join(","),
            flag_names(self.flags, &FLAGS),
            self.epoch,
        )
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use types::{Epoch, PgId, PoolId};

    use super::*;
    use crate::{OpParams, osd_flag};

    #[test]
    fn ops_read_as_ceph_writes_them() {
        let data = Bytes::from_static(b"hello\n");
        let write = OsdOp { params: OpParams::extent(0, 6), data, ..OsdOp::new(OpCode::WRITEFULL) };
        let class = Bytes::from_static(b"rbdget_sizeabc");
        let params = OpParams::from_parts(&[&[3, 8]]);
        let call = OsdOp { params, data: class, ..OsdOp::new(OpCode::CALL) };
        let op = MOSDOp {
            pgid: PgId::new(PoolId(2), 5),
            hash: 0x7fc1_f406,
            oid: Bytes::from_static(b"foo"),
            snapid: SnapId::HEAD,
            ops: vec![write, call],
            flags: osd_flag::ONDISK | osd_flag::WRITE | osd_flag::KNOWN_REDIR | osd_flag::SUPPORTSPOOLEIO,
            epoch: Epoch(19),
            ..MOSDOp::default()
        };
        assert_eq!(
            op.describe(&EntityNum::client(4155), 3),
            "osd_op(client.4155.0:3 2.5 2:602f83fe:::foo:head [writefull 0~6 in=6b,call rbd.get_size in=14b] \
             snapc 0=[] ondisk+write+known_if_redirected+supports_pool_eio e19)",
        );
        let names = [OpCode::OMAPGETVALS, OpCode::SPARSE_READ, OpCode::LIST_SNAPS, OpCode(7)].map(op_name);
        assert_eq!(names, ["omap-get-vals", "sparse-read", "list-snaps", "???"]);
    }
}
