//! The ring of entries in an object's data, behind a head: what the queue classes share (cls_queue_src.cc).
//!
//! An entry is a mark, its length and its data; it may begin at the ring's end and go on at its beginning.

use ::types::Errno;
use bytes::{Buf, Bytes};
use codec::{Decode, Encode, Features};

use super::types::{Entry, Head, InitOp, ListOp, ListReply, Marker};
use crate::{ObjectView, Stop};

/// `QUEUE_HEAD_START`, `QUEUE_ENTRY_START`.
const HEAD_MARK: u16 = 0xDEAD;
const ENTRY_MARK: u16 = 0xBEEF;
/// `QUEUE_ENTRY_OVERHEAD`: mark and length, of the head as of an entry.
pub(crate) const OVERHEAD: u64 = 10;
/// `QUEUE_HEAD_SIZE_1K`: the head without urgent data.
const HEAD_BYTES: u64 = 1024;
/// Entries in one list: each takes memory besides its data, and may have none. A longer list says that there are more.
/// RGW asks for 1,024 at a time.
const LIST_COUNT_MAX: u64 = 1 << 16;
/// Read at once when entries are listed.
const READ_BYTES: u64 = 64 << 10;

/// Puts a mark, a length and the data behind `out`.
fn frame(out: &mut Vec<u8>, mark: u16, data: &[u8]) {
    out.extend_from_slice(&mark.to_le_bytes());
    out.extend_from_slice(&(data.len() as u64).to_le_bytes());
    out.extend_from_slice(data);
}

/// Mark and length; EINVAL for another mark.
fn parse_frame(mut bytes: &[u8], mark: u16) -> Result<u64, Stop> {
    if bytes.len() < OVERHEAD as usize || bytes.get_u16_le() != mark {
        return Err(Errno::EINVAL.into());
    }
    Ok(bytes.get_u64_le())
}

impl Head {
    /// The head of the queue in an object; EINVAL without a queue.
    pub(crate) fn load(view: &mut dyn ObjectView) -> Result<Head, Stop> {
        let size = view.stat()?.map_or(0, |stat| stat.size);
        let len = parse_frame(&view.read(0, OVERHEAD)?, HEAD_MARK)?;
        let bytes = view.read(OVERHEAD, len.min(size))?;
        let head = Head::from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
        let is_inside = |marker: Marker| (head.begin..head.end).contains(&marker.offset);
        let is_sound = is_inside(head.front) && is_inside(head.tail) && head.used() <= head.capacity();
        if is_sound { Ok(head) } else { Err(Errno::EINVAL.into()) }
    }

    /// EINVAL if it does not fit before the ring, whose entries it would overwrite.
    pub(crate) fn save(&self, view: &mut dyn ObjectView) -> Result<(), Stop> {
        let mut head = Vec::new();
        frame(&mut head, HEAD_MARK, &self.to_bytes(Features::PACIFIC));
        if head.len() as u64 > self.begin {
            return Err(Errno::EINVAL.into());
        }
        view.write(0, head.into())
    }

    /// Makes a queue in an object that exists and has none.
    pub(crate) fn init(view: &mut dyn ObjectView, op: InitOp) -> Result<(), Stop> {
        match Head::load(view) {
            Ok(_) => return Err(Errno::EEXIST.into()),
            Err(Stop::Refused(Errno::EINVAL)) => {}
            Err(stop) => return Err(stop),
        }
        let begin = HEAD_BYTES.saturating_add(op.urgent_bytes_max);
        let start = Marker { round: 0, offset: begin };
        let head = Head {
            begin,
            front: start,
            tail: start,
            end: begin.saturating_add(op.bytes),
            urgent_bytes_max: op.urgent_bytes_max,
            urgent: op.urgent,
        };
        head.save(view)
    }

    /// Bytes of the ring.
    pub(crate) fn capacity(&self) -> u64 {
        self.end - self.begin
    }

    /// Bytes of the ring that entries take.
    pub(crate) fn used(&self) -> u64 {
        self.distance(self.front, self.tail).unwrap_or(u64::MAX)
    }

    pub(crate) fn free(&self) -> u64 {
        self.capacity().saturating_sub(self.used())
    }

    /// Bytes from one place to a later one; none if it is no later one.
    fn distance(&self, from: Marker, to: Marker) -> Option<u64> {
        let rounds = to.round.checked_sub(from.round)?;
        rounds.checked_mul(self.capacity())?.checked_add(to.offset)?.checked_sub(from.offset)
    }

    /// `len` bytes further, which is less than the ring has.
    fn advance(&self, marker: Marker, len: u64) -> Marker {
        let offset = marker.offset + len;
        if offset < self.end {
            Marker { offset, ..marker }
        } else {
            Marker { round: marker.round.wrapping_add(1), offset: offset - self.capacity() }
        }
    }

    /// The parts of the object that hold `len` bytes from `at` on.
    fn parts(&self, at: Marker, len: u64) -> [(u64, u64); 2] {
        let first = len.min(self.end - at.offset);
        [(at.offset, first), (self.begin, len - first)]
    }

    fn read(&self, view: &mut dyn ObjectView, at: Marker, len: u64) -> Result<Vec<u8>, Stop> {
        let mut out = Vec::new();
        for (offset, len) in self.parts(at, len).into_iter().filter(|(_, len)| *len > 0) {
            out.extend_from_slice(&view.read(offset, len)?);
        }
        Ok(out)
    }

    /// Sees to it that the window holds what is needed of the bytes that are left; EINVAL if they are not there.
    fn fill(
        &self,
        view: &mut dyn ObjectView,
        window: &mut Bytes,
        at: Marker,
        needed: u64,
        left: u64,
    ) -> Result<(), Stop> {
        if (window.len() as u64) < needed {
            *window = self.read(view, at, left.min(needed.max(READ_BYTES)))?.into();
        }
        if (window.len() as u64) < needed { Err(Errno::EINVAL.into()) } else { Ok(()) }
    }

    /// Appends entries, all in one write; ENOSPC without room for all of them.
    pub(crate) fn append(&mut self, view: &mut dyn ObjectView, entries: &[Bytes]) -> Result<(), Stop> {
        let len = entries.iter().map(|data| OVERHEAD + data.len() as u64).sum();
        if len > self.free() {
            return Err(Errno::ENOSPC.into());
        }
        let mut bytes = Vec::with_capacity(len as usize);
        entries.iter().for_each(|data| frame(&mut bytes, ENTRY_MARK, data));
        let mut bytes = Bytes::from(bytes);
        for (offset, len) in self.parts(self.tail, len).into_iter().filter(|(_, len)| *len > 0) {
            view.write(offset, bytes.split_to(len as usize))?;
        }
        self.tail = self.advance(self.tail, len);
        Ok(())
    }

    /// Entries from a marker on, or from the oldest one.
    pub(crate) fn list(&self, view: &mut dyn ObjectView, op: &ListOp) -> Result<ListReply, Stop> {
        let mut entries = Vec::new();
        let op = ListOp { max: op.max.min(LIST_COUNT_MAX), ..op.clone() };
        let end = self.walk(view, &op, |data, at| entries.push(Entry { data, marker: at.text() }))?;
        Ok(ListReply { is_truncated: end != self.tail, next_marker: end.text(), entries })
    }

    /// How many entries there are from the oldest one to before a marker.
    pub(crate) fn count(&self, view: &mut dyn ObjectView, end_marker: &Bytes) -> Result<u64, Stop> {
        let op = ListOp { max: u64::MAX, end_marker: end_marker.clone(), ..ListOp::default() };
        let mut count = 0;
        self.walk(view, &op, |_, _| count += 1)?;
        Ok(count)
    }

    /// Calls `each` with the entries that a list asks for, and their places, in order, and says where they end.
    fn walk(
        &self,
        view: &mut dyn ObjectView,
        op: &ListOp,
        mut each: impl FnMut(Bytes, Marker),
    ) -> Result<Marker, Stop> {
        let asked = Marker::parse(&op.start_marker).unwrap_or_default();
        let mut at = if asked.offset == 0 { self.front } else { asked };
        let until = if op.end_marker.is_empty() { self.tail } else { Marker::parse(&op.end_marker)? };
        let is_inside = (self.begin..self.end).contains(&at.offset) && until.offset <= self.end;
        let reach = self.distance(at, until).filter(|len| is_inside && *len <= self.capacity());
        let mut left = reach.ok_or(Errno::EINVAL)?;
        let mut count = 0;
        // What was read and not looked at yet, from `at` on.
        let mut window = Bytes::new();
        while left > 0 && count < op.max {
            self.fill(view, &mut window, at, OVERHEAD, left)?;
            let len = parse_frame(&window, ENTRY_MARK)?;
            let whole = len.checked_add(OVERHEAD).filter(|whole| *whole <= left).ok_or(Errno::EINVAL)?;
            self.fill(view, &mut window, at, whole, left)?;
            let data = window.split_to(whole as usize).slice(OVERHEAD as usize..);
            each(data, at);
            count += 1;
            at = self.advance(at, whole);
            left -= whole;
        }
        Ok(at)
    }

    /// Drops the entries before a marker.
    pub(crate) fn remove(&mut self, view: &mut dyn ObjectView, end: &[u8]) -> Result<(), Stop> {
        if self.front == self.tail {
            return Ok(());
        }
        let end = Marker::parse(end)?;
        let len = self.distance(self.front, end).filter(|len| *len <= self.used()).ok_or(Errno::EINVAL)?;
        for (offset, len) in self.parts(self.front, len).into_iter().filter(|(_, len)| *len > 0) {
            view.zero(offset, len)?;
        }
        self.front = self.advance(self.front, len);
        Ok(())
    }
}
