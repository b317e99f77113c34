//! Device commands that several file operations execute: a flush of several devices, a range in several pieces.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::AlignedBuf;
use store::DeviceError;

/// Tokens from here on are operations of such commands; a store's own count from 1.
const FIRST: u64 = 1 << 63;

/// One command on its way.
#[derive(Debug)]
struct SplitCommand {
    left: usize,
    /// What was read, in order.
    parts: Vec<Bytes>,
    result: Result<(), DeviceError>,
}

/// Device commands in progress that several file operations execute.
#[derive(Debug)]
pub(crate) struct SplitCommands {
    commands: BTreeMap<u64, SplitCommand>,
    /// By an operation's token: its command's, and which part it is.
    parts: BTreeMap<u64, (u64, usize)>,
    next: u64,
}

impl SplitCommands {
    pub(crate) fn new() -> SplitCommands {
        SplitCommands { commands: BTreeMap::new(), parts: BTreeMap::new(), next: FIRST }
    }

    /// Tokens for the operations of a command.
    pub(crate) fn split(&mut self, token: u64, count: usize) -> impl Iterator<Item = u64> + use<> {
        self.commands
            .insert(token, SplitCommand { left: count, parts: vec![Bytes::new(); count], result: Ok(()) });
        let first = self.next;
        self.next += count as u64;
        self.parts.extend((first..).take(count).enumerate().map(|(at, part)| (part, (token, at))));
        (first..).take(count)
    }

    /// An operation ended: the command that it ends, or is. What was read comes in one piece.
    pub(crate) fn done(
        &mut self,
        token: u64,
        result: Result<Bytes, DeviceError>,
    ) -> Option<(u64, Result<Bytes, DeviceError>)> {
        let Some((command, at)) = self.parts.remove(&token) else { return Some((token, result)) };
        let split = self.commands.get_mut(&command)?;
        split.left -= 1;
        match result {
            Ok(part) => split.parts[at] = part,
            Err(error) => split.result = split.result.and(Err(error)),
        }
        if split.left > 0 {
            return None;
        }
        let SplitCommand { parts, result, .. } = self.commands.remove(&command)?;
        Some((command, result.map(|()| concat(&parts))))
    }
}

/// Whole blocks, or nothing, in memory that a device takes.
fn concat(parts: &[Bytes]) -> Bytes {
    if parts.iter().all(Bytes::is_empty) {
        return Bytes::new();
    }
    let mut whole = AlignedBuf::zeroed(parts.iter().map(Bytes::len).sum());
    let mut at = 0;
    for part in parts {
        whole.as_mut_slice()[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    whole.into()
}

/// The first `len` bytes of memory in several pieces, which are taken out of it.
pub(crate) fn take_front(data: &mut Vec<Bytes>, len: u64) -> Vec<Bytes> {
    let (mut out, mut left) = (Vec::new(), usize::try_from(len).unwrap_or(usize::MAX));
    let mut whole_count = 0;
    for piece in data.iter_mut() {
        if left < piece.len() {
            if left > 0 {
                out.push(piece.split_to(left));
            }
            break;
        }
        left -= piece.len();
        out.push(piece.clone());
        whole_count += 1;
    }
    data.drain(..whole_count);
    out
}

#[cfg(test)]
mod tests {
    use codec::BLOCK_BYTES;

    use super::*;

    #[test]
    fn what_is_read_in_pieces_comes_in_order_when_all_is_there() {
        let mut split_commands = SplitCommands::new();
        let tokens: Vec<u64> = split_commands.split(7, 2).collect();
        let other: Vec<u64> = split_commands.split(8, 2).collect();
        assert_eq!(
            split_commands.done(3, Ok(Bytes::from("x"))),
            Some((3, Ok(Bytes::from("x")))),
            "a single one"
        );
        let blocks = |first: u8, count: usize| Bytes::from(vec![first; count * BLOCK_BYTES]);
        assert_eq!(split_commands.done(tokens[1], Ok(blocks(2, 3))), None);
        assert_eq!(split_commands.done(other[0], Err(DeviceError::Io)), None);
        assert_eq!(split_commands.done(other[1], Ok(Bytes::new())), Some((8, Err(DeviceError::Io))));
        let (token, whole) = split_commands.done(tokens[0], Ok(blocks(1, 1))).unwrap();
        assert!(token == 7 && whole.unwrap() == [blocks(1, 1), blocks(2, 3)].concat());
        let flush: Vec<u64> = split_commands.split(5, 1).collect();
        assert_eq!(split_commands.done(flush[0], Ok(Bytes::new())), Some((5, Ok(Bytes::new()))));
        assert_eq!(split_commands.done(9, Ok(Bytes::new())), Some((9, Ok(Bytes::new()))));
        assert!(split_commands.commands.is_empty() && split_commands.parts.is_empty());
    }

    #[test]
    fn memory_is_cut_where_a_piece_ends() {
        let mut data = vec![Bytes::from("abc"), Bytes::from("de"), Bytes::from("f")];
        assert_eq!(take_front(&mut data, 0), Vec::<Bytes>::new());
        assert_eq!(take_front(&mut data, 4), ["abc", "d"]);
        assert_eq!(take_front(&mut data, 1), ["e"]);
        assert_eq!(data, ["f"]);
        assert_eq!(take_front(&mut data, 9), ["f"]);
        assert_eq!(data, Vec::<Bytes>::new());
    }
}
