//! Inputs of class methods, made from a description of what they decode.
//!
//! A description is a sequence of: `b` u8, `w` u32, `q` u64, `Q` u64 as sizes are, `i` i64, `n` a snapshot's id, `s` a
//! name, `y` bytes with their length, `Y` bytes without, `t` a time, `E` an entity, `{V …}` an envelope of version V,
//! `[…]` a list.

use bytes::Bytes;
use messages::{OpCode, OsdOp};

use crate::dice::Dice;

/// Class, method and its input.
const METHODS: &[(&str, &str, &str)] = include!("methods.in");

const NAMES: &[&str] = &["a", "b", "ab", "c1", "", "x.y", "1", "10", "-3", "2.5", "1_a", "zz"];

/// A call of some method with what it might take; now and then with something else.
pub(crate) fn call(dice: &mut Dice, only: Option<&str>) -> OsdOp {
    let (class, method, shape) = loop {
        let row = dice.pick(METHODS);
        if only.is_none_or(|only| only == row.0) {
            break row;
        }
    };
    let mut input = Vec::new();
    fill(&mut input, &mut shape.bytes().collect::<Vec<u8>>().as_slice(), dice);
    match dice.below(24) {
        0 => input.truncate(dice.below(input.len() as u64 + 1) as usize),
        1 => input.extend_from_slice(&dice.bytes(5)),
        2 if !input.is_empty() => {
            let at = dice.below(input.len() as u64) as usize;
            input[at] = dice.pick(&[0, 1, 2, 0x7f, 0xff]);
        }
        3 => input.clear(),
        _ => {}
    }
    let (class, method) = match dice.below(300) {
        0 => ("nonesuch", method),
        1 => (class, "nonesuch"),
        _ => (class, method),
    };
    of(class, method, &input)
}

/// The op that calls a method.
pub(crate) fn of(class: &str, method: &str, input: &[u8]) -> OsdOp {
    let mut op = OsdOp::new(OpCode::CALL);
    op.params.0[0] = class.len() as u8;
    op.params.0[1] = method.len() as u8;
    op.params.0[3..7].copy_from_slice(&(input.len() as u32).to_le_bytes());
    op.data = Bytes::from([class.as_bytes(), method.as_bytes(), input].concat());
    op
}

/// Class and method of a call.
pub(crate) fn name(op: &OsdOp) -> String {
    match op.call_names() {
        Some((class, method)) => {
            format!("{}.{}", String::from_utf8_lossy(class), String::from_utf8_lossy(method))
        }
        None => "broken".to_owned(),
    }
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends what `shape` says, up to its end or a closing bracket.
fn fill(out: &mut Vec<u8>, shape: &mut &[u8], dice: &mut Dice) {
    while let Some((kind, rest)) = shape.split_first() {
        *shape = rest;
        match kind {
            b'b' => out.push(dice.pick(&[0, 0, 1, 1, 1, 2, 3, 22, 0x7f])),
            b'w' => {
                out.extend_from_slice(&dice.pick(&[0u32, 1, 1, 2, 2, 3, 10, 1000, u32::MAX]).to_le_bytes())
            }
            b'q' => out.extend_from_slice(&dice.pick(&[0u64, 1, 1, 2, 3, 4, 5, 64, u64::MAX]).to_le_bytes()),
            b'Q' => out.extend_from_slice(
                &dice.pick(&[0u64, 1, 5, 4096, 1 << 20, 10 << 20, 1 << 40, u64::MAX]).to_le_bytes(),
            ),
            b'i' => out.extend_from_slice(&dice.pick(&[-1i64, 0, 1, 2, 3]).to_le_bytes()),
            b'n' => out.extend_from_slice(&dice.pick(&[0u64, 1, 2, 3, u64::MAX - 1]).to_le_bytes()),
            b's' => text(out, dice.pick(NAMES).as_bytes()),
            b'y' => {
                let len = dice.pick(&[0, 1, 7, 100]);
                text(out, &dice.bytes(len));
            }
            b'Y' => {
                let len = dice.pick(&[0, 1, 7, 100, 5000]);
                out.extend_from_slice(&dice.bytes(len));
            }
            b't' => {
                out.extend_from_slice(&dice.pick(&[0u32, 1, 2, 3, 100]).to_le_bytes());
                out.extend_from_slice(&dice.pick(&[0u32, 1, 500]).to_le_bytes());
            }
            b'E' => {
                out.push(dice.pick(&[8, 8, 4, 0]));
                out.extend_from_slice(&dice.pick(&[0u64, 1, 4100]).to_le_bytes());
            }
            b'{' => {
                let version = shape[0] - b'0';
                *shape = &shape[1..];
                let mut inner = Vec::new();
                fill(&mut inner, shape, dice);
                out.extend_from_slice(&[version, 1]);
                text(out, &inner);
            }
            b'[' => {
                let count = dice.pick(&[0u32, 1, 1, 2, 3]);
                out.extend_from_slice(&count.to_le_bytes());
                let start = *shape;
                // Once for nothing, to find the end.
                fill(&mut Vec::new(), shape, dice);
                for _ in 0..count {
                    fill(out, &mut { start }, dice);
                }
            }
            b'}' | b']' => return,
            other => debug_assert!(other.is_ascii_whitespace(), "unknown {other}"),
        }
    }
}
