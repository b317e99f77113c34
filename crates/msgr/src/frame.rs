//! Frames of msgr2.1, in crc and in secure mode.

use bytes::Bytes;
use codec::{Payload, Sums, crc32c, traffic};
use messages::PEER_SEGMENT_BYTES_MAX;
use thiserror::Error;

use crate::{
    crypto::{Cipher, TAG_BYTES},
    rope::Rope,
};

/// The kind of a frame (`ceph::msgr::v2::Tag`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u8);

#[allow(missing_docs, reason = "Ceph's own names")]
impl Tag {
    pub const HELLO: Tag = Tag(1);
    pub const AUTH_REQUEST: Tag = Tag(2);
    pub const AUTH_BAD_METHOD: Tag = Tag(3);
    pub const AUTH_REPLY_MORE: Tag = Tag(4);
    pub const AUTH_REQUEST_MORE: Tag = Tag(5);
    pub const AUTH_DONE: Tag = Tag(6);
    pub const AUTH_SIGNATURE: Tag = Tag(7);
    pub const CLIENT_IDENT: Tag = Tag(8);
    pub const SERVER_IDENT: Tag = Tag(9);
    pub const IDENT_MISSING_FEATURES: Tag = Tag(10);
    pub const SESSION_RECONNECT: Tag = Tag(11);
    pub const SESSION_RESET: Tag = Tag(12);
    pub const SESSION_RETRY: Tag = Tag(13);
    pub const SESSION_RETRY_GLOBAL: Tag = Tag(14);
    pub const SESSION_RECONNECT_OK: Tag = Tag(15);
    pub const WAIT: Tag = Tag(16);
    pub const MESSAGE: Tag = Tag(17);
    pub const KEEPALIVE2: Tag = Tag(18);
    pub const KEEPALIVE2_ACK: Tag = Tag(19);
    pub const ACK: Tag = Tag(20);
}

/// Why bytes are no frame; the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The preamble's or a segment's checksum is wrong.
    #[error("checksum mismatch")]
    Crc,
    /// The preamble breaks a rule.
    #[error("malformed preamble")]
    Preamble,
    /// A segment is longer than allowed.
    #[error("segment of {bytes} bytes is too long")]
    TooLong {
        /// Its length.
        bytes: u32,
    },
    /// The epilogue does not say whether the sender completed the frame.
    #[error("malformed epilogue")]
    Epilogue,
    /// An encrypted frame does not decrypt.
    #[error("decryption failed")]
    Decrypt,
}

const SEGMENTS_MAX: usize = 4;
const PREAMBLE_BYTES: usize = 32;
/// Segment bytes that are encrypted with the preamble.
const INLINE_BYTES: usize = 48;
const SECURE_PREAMBLE_BYTES: usize = PREAMBLE_BYTES + INLINE_BYTES + TAG_BYTES;
const EPILOGUE_BYTES: usize = 13;
const SECURE_EPILOGUE_BYTES: usize = 16;
/// How a frame ended, in the epilogue: its sender completed it, or gave it up and filled it with zeros.
const LATE_COMPLETE: u8 = 0x0e;
const LATE_ABORTED: u8 = 0x01;
const SEED: u32 = u32::MAX;

/// Longest segments: of control frames (all that there is before a session) and message headers, then
/// of a message's front and its payload. Ceph clients send up to 32 MiB of payload
/// (`osd_max_write_size` is 90 MiB).
const CONTROL_BYTES_MAX: u32 = 64 << 10;
const FRONT_BYTES_MAX: u32 = 32 << 20;
const DATA_BYTES_MAX: u32 = 128 << 20;
/// Longest front and longest payload from a peer that is no OSD and talks to a monitor or manager. The longest payloads
/// that stock clients send are CRUSH maps (less than 1 MiB with 10,000 OSDs) and keyrings to be imported (200 bytes an
/// entity); what is typed is in a front, as are values of `config-key` (64 KiB).
const COMMAND_FRONT_BYTES_MAX: u32 = 1 << 20;
const COMMAND_BYTES_MAX: u32 = 16 << 20;
/// Longest front of a message whose payload is too long to be taken: what comes of that is dropped, so that the message
/// can be refused. Requests with so much data have few ops.
const REFUSED_FRONT_BYTES_MAX: u32 = 32 << 10;

/// What a peer may send, by what it is known to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limits {
    /// A peer that is not known yet: control frames alone.
    #[default]
    Handshake,
    /// A peer that has authenticated: messages.
    Any,
    /// A peer that gives commands to a monitor or manager.
    Command,
    /// An OSD in its session with this one: it sends on what clients sent it, in another form, which may be longer.
    Osd,
}

impl Limits {
    /// The longest front, and the longest payload.
    fn of_message(self) -> (u32, u32) {
        match self {
            Limits::Handshake => (CONTROL_BYTES_MAX, CONTROL_BYTES_MAX),
            Limits::Any => (FRONT_BYTES_MAX, DATA_BYTES_MAX),
            Limits::Command => (COMMAND_FRONT_BYTES_MAX, COMMAND_BYTES_MAX),
            Limits::Osd => (PEER_SEGMENT_BYTES_MAX, PEER_SEGMENT_BYTES_MAX),
        }
    }
}

/// A frame's tag and segments.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) tag: Tag,
    pub(crate) segments: [Bytes; SEGMENTS_MAX],
    /// The checksums of the last segment, where the frame brought one.
    pub(crate) data_sums: Option<Sums>,
    /// There was more payload than is taken: none of it is here.
    pub(crate) is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Preamble {
    tag: u8,
    count: usize,
    lengths: [u32; SEGMENTS_MAX],
    /// The payload is longer than what is taken.
    is_cut: bool,
}

impl Preamble {
    fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut out = [0; PREAMBLE_BYTES];
        out[0] = self.tag;
        out[1] = self.count as u8;
        for (index, length) in self.lengths.iter().enumerate().take(self.count) {
            // Payload asks for page alignment, as Ceph's does; receivers may ignore it.
            let alignment: u16 = if index == 3 { 4096 } else { 8 };
            let at = 2 + index * 6;
            out[at..at + 4].copy_from_slice(&length.to_le_bytes());
            out[at + 4..at + 6].copy_from_slice(&alignment.to_le_bytes());
        }
        let crc = crc32c(0, &out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; PREAMBLE_BYTES], limits: Limits, is_secure: bool) -> Result<Preamble, FrameError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if crc32c(0, &bytes[..28]) != word(28) {
            return Err(FrameError::Crc);
        }
        let (tag, count) = (bytes[0], usize::from(bytes[1]));
        let is_message = limits != Limits::Handshake && Tag(tag) == Tag::MESSAGE;
        let count_max = if is_message { SEGMENTS_MAX } else { 1 };
        if !(1..=count_max).contains(&count) {
            return Err(FrameError::Preamble);
        }
        let (front_max, data_max) = limits.of_message();
        let mut lengths = [0; SEGMENTS_MAX];
        let mut is_cut = false;
        for (index, length) in lengths.iter_mut().enumerate().take(count) {
            *length = word(2 + index * 6);
            let limit = match (is_message, index) {
                (false, _) | (true, 0) => CONTROL_BYTES_MAX,
                (true, 3) => data_max,
                (true, _) => front_max,
            };
            is_cut = *length > limit && index == 3 && limits == Limits::Any && !is_secure;
            if *length > limit && !is_cut {
                return Err(FrameError::TooLong { bytes: *length });
            }
        }
        let front_bytes = lengths[1].saturating_add(lengths[2]);
        if is_cut && front_bytes > REFUSED_FRONT_BYTES_MAX {
            return Err(FrameError::TooLong { bytes: front_bytes });
        }
        Ok(Preamble { tag, count, lengths, is_cut })
    }

    /// What comes between a preamble and the payload in crc mode: segments, and the checksum of the first one.
    fn bytes_before_payload(&self) -> usize {
        self.lengths[..3].iter().map(|length| *length as usize).sum::<usize>() + 4
    }

    fn padded(bytes: usize) -> usize {
        bytes.next_multiple_of(16)
    }

    /// Bytes on the wire behind the preamble (and, in secure mode, behind the part inlined there).
    fn rest_bytes(&self, is_secure: bool) -> usize {
        let lengths = self.lengths.map(|l| l as usize);
        if !is_secure {
            let first = if lengths[0] > 0 { lengths[0] + 4 } else { 0 };
            let epilogue = if self.count > 1 { EPILOGUE_BYTES } else { 0 };
            return first + lengths[1..].iter().sum::<usize>() + epilogue;
        }
        let first = Self::padded(lengths[0].saturating_sub(INLINE_BYTES));
        if self.count == 1 {
            return if first == 0 { 0 } else { first + TAG_BYTES };
        }
        let others: usize = lengths[1..self.count].iter().map(|l| Self::padded(*l)).sum();
        first + others + SECURE_EPILOGUE_BYTES + TAG_BYTES
    }
}

/// Longest front of a large frame that is copied out of it; longer ones are most of their frame.
const COPIED_FRONT_BYTES_MAX: usize = 16 << 10;
/// Frames with more bytes than this behind the preamble are received into one buffer.
const LARGE_FRAME_BYTES: usize = 32 << 10;

/// The part of a frame that is copied out of its receive buffer until the rest is there. A longer one is copied only
/// once, with the rest.
const RELEASED_BYTES_MAX: usize = 1 << 10;

/// The part that is there of a large frame: the owner of the transport puts it and what follows into one
/// buffer, and gives that to the connection instead.
#[derive(Debug)]
pub struct PartialFrame {
    /// The first bytes, in pieces.
    pub have: Vec<Bytes>,
    /// Bytes in all.
    pub bytes: usize,
    /// The byte where the payload begins: it should lie on a page's start, for a device to take it as it is.
    pub align_at: usize,
}

/// A frame whose preamble is there.
#[derive(Debug)]
struct Begun {
    preamble: Preamble,
    /// The preamble as it came, decrypted.
    raw: [u8; PREAMBLE_BYTES],
    /// The part of the first segment that is encrypted with the preamble.
    inline: Bytes,
    /// Of a frame that is cut, once all before the payload is there.
    cut: Option<Box<Cut>>,
}

/// What is kept of a frame whose payload is dropped.
#[derive(Debug)]
struct Cut {
    first: Bytes,
    front: Bytes,
    middle: Bytes,
    /// Bytes of payload that are still to come.
    left: usize,
}

/// Takes frames out of received bytes.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    rope: Rope,
    begun: Option<Begun>,
    cipher: Option<Cipher>,
    limits: Limits,
}

impl FrameReader {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.rope.push(bytes);
    }

    /// From here on frames are encrypted.
    pub(crate) fn secure(&mut self, cipher: Cipher) {
        self.cipher = Some(cipher);
    }

    /// The handshake is over: long frames are allowed, as far as these limits say.
    pub(crate) fn ready(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Raw bytes, before the first frame.
    pub(crate) fn take_raw(&mut self, count: usize) -> Option<Bytes> {
        self.rope.take(count)
    }

    /// Bytes that the frame under way still needs; 0 when unknown.
    pub(crate) fn bytes_wanted(&self) -> usize {
        let rest = self.begun.as_ref().map_or(0, |begun| match (begun.preamble.is_cut, &begun.cut) {
            (false, _) => begun.preamble.rest_bytes(self.cipher.is_some()),
            // What is dropped is taken as it comes.
            (true, Some(_)) => 0,
            (true, None) => begun.preamble.bytes_before_payload(),
        });
        rest.saturating_sub(self.rope.len())
    }

    /// What is there of a large frame under way; forgotten here.
    pub(crate) fn take_partial(&mut self) -> Option<PartialFrame> {
        let Begun { preamble, .. } = self.begun.as_ref().filter(|begun| !begun.preamble.is_cut)?;
        let is_secure = self.cipher.is_some();
        let bytes = preamble.rest_bytes(is_secure);
        if bytes < LARGE_FRAME_BYTES {
            return None;
        }
        let payload_bytes = preamble.lengths[3] as usize;
        // What is encrypted is decrypted into other memory.
        let has_payload = !is_secure && payload_bytes > 0;
        let align_at = if has_payload { bytes - EPILOGUE_BYTES - payload_bytes } else { 0 };
        Some(PartialFrame { have: self.rope.take_all(), bytes, align_at })
    }

    /// To be called when there is no further whole frame. What is left of the received bytes waits for a peer that may
    /// take long: a little must not keep a receive buffer that others need.
    pub(crate) fn wait(&mut self) {
        self.rope.detach(RELEASED_BYTES_MAX);
    }

    /// The next whole frame, and the bytes that it took on the wire (for the handshake's signature). A message that its
    /// sender gave up is passed over, as if it had not been sent: the Linux kernel revokes requests half sent.
    pub(crate) fn next(&mut self, mut transcript: Option<&mut Vec<u8>>) -> Result<Option<Frame>, FrameError> {
        while let Some(begun) = self.take_whole()? {
            if let Some(frame) = self.finish(begun, transcript.as_deref_mut())? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// The frame under way, or the next one, if all of it is there.
    fn take_whole(&mut self) -> Result<Option<Begun>, FrameError> {
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => match self.begin()? {
                Some(begun) => begun,
                None => return Ok(None),
            },
        };
        if begun.preamble.is_cut {
            return self.drop_payload(begun);
        }
        let rest_bytes = begun.preamble.rest_bytes(self.cipher.is_some());
        if self.rope.len() < rest_bytes {
            self.begun = Some(begun);
            return Ok(None);
        }
        Ok(Some(begun))
    }

    /// Goes on with a frame whose payload is dropped as it comes. It is whole when its end is there.
    fn drop_payload(&mut self, mut begun: Begun) -> Result<Option<Begun>, FrameError> {
        let lengths = begun.preamble.lengths;
        if begun.cut.is_none() && self.rope.len() >= begun.preamble.bytes_before_payload() {
            let first = take_segment(&mut self.rope, lengths[0], true);
            let sum = crc32c(SEED, &first).to_le_bytes();
            if !first.is_empty() && self.rope.take(sum.len()).is_none_or(|found| found[..] != sum) {
                return Err(FrameError::Crc);
            }
            let front = take_segment(&mut self.rope, lengths[1], true);
            let middle = take_segment(&mut self.rope, lengths[2], true);
            begun.cut = Some(Box::new(Cut { first, front, middle, left: lengths[3] as usize }));
        }
        if let Some(cut) = &mut begun.cut {
            let count = cut.left.min(self.rope.len());
            self.rope.skip(count);
            cut.left -= count;
            if cut.left == 0 && self.rope.len() >= EPILOGUE_BYTES {
                return Ok(Some(begun));
            }
        }
        self.begun = Some(begun);
        Ok(None)
    }

    /// Takes the rest of a frame, all of which is there; none if its sender gave it up.
    fn finish(
        &mut self,
        begun: Begun,
        transcript: Option<&mut Vec<u8>>,
    ) -> Result<Option<Frame>, FrameError> {
        let Begun { preamble, raw, inline, cut } = begun;
        if let Some(cut) = cut {
            return cut_frame(preamble, *cut, &mut self.rope);
        }
        let rest_bytes = preamble.rest_bytes(self.cipher.is_some());
        if let Some(transcript) = transcript {
            transcript.extend_from_slice(&raw);
            self.rope.append_to(rest_bytes, transcript);
        }
        let parts = match &mut self.cipher {
            None => crc_segments(&preamble, &mut self.rope)?,
            Some(cipher) => {
                let rest = self.rope.take(rest_bytes).unwrap_or_default();
                secure_segments(&preamble, inline, rest, cipher)?.map(|segments| (segments, None))
            }
        };
        Ok(parts.map(|(segments, data_sums)| Frame {
            tag: Tag(preamble.tag),
            segments,
            data_sums,
            is_cut: false,
        }))
    }

    /// Takes a preamble, if it is there.
    fn begin(&mut self) -> Result<Option<Begun>, FrameError> {
        let (raw, inline) = match &mut self.cipher {
            None => {
                let Some(raw) = self.rope.take_array() else { return Ok(None) };
                (raw, Bytes::new())
            }
            Some(cipher) => {
                let Some(sealed) = self.rope.take(SECURE_PREAMBLE_BYTES) else { return Ok(None) };
                let plain = open(cipher, &sealed)?;
                let (raw, _) = plain.split_first_chunk().ok_or(FrameError::Decrypt)?;
                (*raw, plain.slice(PREAMBLE_BYTES..))
            }
        };
        let preamble = Preamble::decode(&raw, self.limits, self.cipher.is_some())?;
        Ok(Some(Begun { preamble, raw, inline, cut: None }))
    }
}

fn open(cipher: &mut Cipher, sealed: &[u8]) -> Result<Bytes, FrameError> {
    let mut buffer = sealed.to_vec();
    if cipher.open(&mut buffer) { Ok(Bytes::from(buffer)) } else { Err(FrameError::Decrypt) }
}

/// False for a frame that its sender gave up.
fn is_complete(status: u8) -> Result<bool, FrameError> {
    match status & 0x0f {
        LATE_COMPLETE => Ok(true),
        LATE_ABORTED => Ok(false),
        _ => Err(FrameError::Epilogue),
    }
}

/// A frame's segments, and the checksums of the last one where it has any.
type SummedSegments = ([Bytes; SEGMENTS_MAX], Option<Sums>);

/// The next segment: a part of the received bytes, or a copy in memory of its own.
fn take_segment(rope: &mut Rope, length: u32, is_copied: bool) -> Bytes {
    let length = length as usize;
    let segment = match (length, is_copied) {
        (0, _) => None,
        (_, true) => rope.copy(length),
        (_, false) => rope.take(length),
    };
    segment.unwrap_or_default()
}

/// The segments, and the checksums of the last one. All of the frame is there; none if its sender gave it up.
///
/// The receive buffer is soon needed for the next bytes, while names out of a front live long, in logs and indexes: so
/// segments of small frames, and short fronts, are copied. A message's header is not, as it is read at once. Large
/// frames have memory of their own, which their payload may keep.
fn crc_segments(preamble: &Preamble, rope: &mut Rope) -> Result<Option<SummedSegments>, FrameError> {
    let is_small = preamble.rest_bytes(false) < LARGE_FRAME_BYTES;
    let lengths = preamble.lengths;
    let first = take_segment(rope, lengths[0], is_small && Tag(preamble.tag) != Tag::MESSAGE);
    if !first.is_empty() && rope.take_array() != Some(crc32c(SEED, &first).to_le_bytes()) {
        return Err(FrameError::Crc);
    }
    if preamble.count == 1 {
        return Ok(Some(([first, Bytes::new(), Bytes::new(), Bytes::new()], None)));
    }
    let front = take_segment(rope, lengths[1], is_small || lengths[1] as usize <= COPIED_FRONT_BYTES_MAX);
    let middle = take_segment(rope, lengths[2], is_small);
    let data = take_segment(rope, lengths[3], is_small);
    // Large payload is to be stored by blocks, mostly.
    let sum = if is_small { Sums::of } else { Sums::by_block };
    let data_sums = (!data.is_empty()).then(|| sum(&data));
    let data_crc = data_sums.as_ref().map_or(SEED, Sums::crc);
    let epilogue: [u8; EPILOGUE_BYTES] = rope.take_array().ok_or(FrameError::Epilogue)?;
    let (status, sums) = epilogue.split_first().ok_or(FrameError::Epilogue)?;
    let crcs = [crc32c(SEED, &front), crc32c(SEED, &middle), data_crc];
    let is_sound = |(sum, crc): (&[u8; 4], &u32)| u32::from_le_bytes(*sum) == *crc;
    if !sums.as_chunks().0.iter().zip(&crcs).take(preamble.count - 1).all(is_sound) {
        return Err(FrameError::Crc);
    }
    Ok(is_complete(*status)?.then_some(([first, front, middle, data], data_sums)))
}

/// The frame whose payload was dropped; none if the sender gave it up. The payload's checksum says nothing about the
/// rest.
fn cut_frame(preamble: Preamble, cut: Cut, rope: &mut Rope) -> Result<Option<Frame>, FrameError> {
    let Cut { first, front, middle, left: _ } = cut;
    let epilogue = rope.take(EPILOGUE_BYTES).ok_or(FrameError::Epilogue)?;
    let (status, sums) = epilogue.split_first().ok_or(FrameError::Epilogue)?;
    let is_sound = |(sum, part): (&[u8; 4], &Bytes)| u32::from_le_bytes(*sum) == crc32c(SEED, part);
    if !sums.as_chunks().0.iter().zip([&front, &middle]).all(is_sound) {
        return Err(FrameError::Crc);
    }
    let segments = [first, front, middle, Bytes::new()];
    let frame = Frame { tag: Tag(preamble.tag), segments, data_sums: None, is_cut: true };
    Ok(is_complete(*status)?.then_some(frame))
}

/// The segments; none if the sender gave the frame up.
fn secure_segments(
    preamble: &Preamble,
    inline: Bytes,
    rest: Bytes,
    cipher: &mut Cipher,
) -> Result<Option<[Bytes; SEGMENTS_MAX]>, FrameError> {
    let mut segments: [Bytes; SEGMENTS_MAX] = Default::default();
    let first = preamble.lengths[0] as usize;
    segments[0] = inline.slice(..first.min(INLINE_BYTES));
    if rest.is_empty() {
        return Ok(Some(segments));
    }
    let mut plain = open(cipher, &rest)?;
    let mut take = |length: usize| {
        let mut padded = plain.split_to(Preamble::padded(length));
        padded.split_to(length)
    };
    if first > INLINE_BYTES {
        let tail = take(first - INLINE_BYTES);
        segments[0] = Bytes::from([&segments[0][..], &tail].concat());
    }
    for (segment, length) in segments.iter_mut().zip(preamble.lengths).take(preamble.count).skip(1) {
        *segment = take(length as usize);
    }
    let is_whole = preamble.count == 1 || is_complete(plain[0])?;
    Ok(is_whole.then_some(segments))
}

/// Makes frames.
#[derive(Debug, Default)]
pub(crate) struct FrameWriter {
    cipher: Option<Cipher>,
}

impl FrameWriter {
    /// From here on frames are encrypted.
    pub(crate) fn secure(&mut self, cipher: Cipher) {
        self.cipher = Some(cipher);
    }

    /// A frame of one segment.
    pub(crate) fn control(&mut self, tag: Tag, payload: &[u8], out: &mut Vec<Bytes>) {
        self.frame(tag, payload, (&Bytes::new(), None), &[], out);
    }

    /// A frame of a first segment, a front, whose checksum may be known, and payload in pieces; payload is not copied
    /// in crc mode.
    pub(crate) fn frame(
        &mut self,
        tag: Tag,
        first: &[u8],
        (front, front_crc): (&Bytes, Option<u32>),
        data: &[Payload],
        out: &mut Vec<Bytes>,
    ) {
        let data_bytes: usize = data.iter().map(|piece| piece.len()).sum();
        let lengths = [first.len() as u32, front.len() as u32, 0, data_bytes as u32];
        // Trailing empty segments are left out.
        let count = lengths.iter().rposition(|l| *l > 0).map_or(1, |last| last + 1);
        let preamble = Preamble { tag: tag.0, count, lengths, is_cut: false };
        match &mut self.cipher {
            None => {
                let front_crc = front_crc.unwrap_or_else(|| crc32c(SEED, front));
                crc_frame(&preamble, first, (front, front_crc), data, out);
            }
            Some(cipher) => out.extend(secure_frame(&preamble, first, front, data, cipher)),
        }
    }
}

fn crc_frame(
    preamble: &Preamble,
    first: &[u8],
    (front, front_crc): (&Bytes, u32),
    data: &[Payload],
    out: &mut Vec<Bytes>,
) {
    let mut head = Vec::with_capacity(PREAMBLE_BYTES + first.len() + 4 + front.len() + EPILOGUE_BYTES);
    head.extend_from_slice(&preamble.encode());
    if !first.is_empty() {
        head.extend_from_slice(first);
        head.extend_from_slice(&crc32c(SEED, first).to_le_bytes());
    }
    if preamble.count == 1 {
        out.push(Bytes::from(head));
        return;
    }
    let mut epilogue = [LATE_COMPLETE; EPILOGUE_BYTES];
    for (index, crc) in [(1, front_crc), (2, SEED), (3, Payload::crc_of_all(data))] {
        // Segments behind the last one count as zero, empty ones before it do not.
        let crc = if index < preamble.count { crc } else { 0 };
        epilogue[index * 4 - 3..=index * 4].copy_from_slice(&crc.to_le_bytes());
    }
    if preamble.count < SEGMENTS_MAX {
        traffic::copied(front.len());
        head.extend_from_slice(front);
        head.extend_from_slice(&epilogue);
        out.push(Bytes::from(head));
        return;
    }
    // The head's memory has room for the end of the frame, too.
    let head_bytes = head.len();
    head.extend_from_slice(&epilogue);
    let mut head = Bytes::from(head);
    let epilogue = head.split_off(head_bytes);
    let pieces = data.iter().map(|piece| Bytes::clone(piece));
    out.reserve(data.len() + 3);
    out.push(head);
    out.extend(std::iter::once(front.clone()).chain(pieces).filter(|piece| !piece.is_empty()));
    out.push(epilogue);
}

fn secure_frame(
    preamble: &Preamble,
    first: &[u8],
    front: &Bytes,
    data: &[Payload],
    cipher: &mut Cipher,
) -> Vec<Bytes> {
    let (inline, tail) = first.split_at(first.len().min(INLINE_BYTES));
    let mut head = preamble.encode().to_vec();
    head.extend_from_slice(inline);
    head.resize(PREAMBLE_BYTES + INLINE_BYTES, 0);
    cipher.seal(&mut head);
    let mut out = vec![Bytes::from(head)];
    if preamble.count == 1 && tail.is_empty() {
        return out;
    }
    let mut rest = Vec::with_capacity(preamble.rest_bytes(true));
    let pad = |rest: &mut Vec<u8>| rest.resize(Preamble::padded(rest.len()), 0);
    rest.extend_from_slice(tail);
    pad(&mut rest);
    if preamble.count > 1 {
        rest.extend_from_slice(front);
        pad(&mut rest);
        data.iter().for_each(|piece| rest.extend_from_slice(piece));
        pad(&mut rest);
        rest.push(LATE_COMPLETE);
        pad(&mut rest);
    }
    cipher.seal(&mut rest);
    out.push(Bytes::from(rest));
    out
}
