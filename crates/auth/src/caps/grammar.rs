//! The common part of capability texts: words, strings in quotes, networks, and the way back when a
//! rule does not fit.

use std::net::IpAddr;

use super::CapsError;

/// `r`, `w`, `x`, `class-read`, `class-write` as bits.
pub(super) mod right {
    pub(in crate::caps) const R: u8 = 1;
    pub(in crate::caps) const W: u8 = 2;
    pub(in crate::caps) const CLASS_READ: u8 = 4;
    pub(in crate::caps) const CLASS_WRITE: u8 = 8;
    pub(in crate::caps) const X: u8 = CLASS_READ | CLASS_WRITE;
    pub(in crate::caps) const RWX: u8 = R | W | X;
    /// `*`: more than all rights together.
    pub(in crate::caps) const ANY: u8 = 0xff;
}

/// What is left of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) rest: &'a str,
}

fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')
}

impl<'a> Text<'a> {
    /// Takes what `rule` takes, or nothing.
    pub(super) fn attempt<T>(&mut self, rule: impl FnOnce(&mut Text<'a>) -> Option<T>) -> Option<T> {
        let before = *self;
        let out = rule(self);
        if out.is_none() {
            *self = before;
        }
        out
    }

    /// Takes white space; none if there is none.
    pub(super) fn spaces(&mut self) -> Option<()> {
        let trimmed = self.rest.trim_start();
        let any = trimmed.len() < self.rest.len();
        self.rest = trimmed;
        any.then_some(())
    }

    /// Takes `word`.
    pub(super) fn word(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// Takes white space and `word`.
    pub(super) fn spaced(&mut self, word: &str) -> Option<()> {
        self.attempt(|t| {
            t.spaces()?;
            t.word(word)
        })
    }

    /// Takes `=` or white space.
    pub(super) fn equals_or_spaces(&mut self) -> Option<()> {
        self.word("=").or_else(|| self.spaces())
    }

    pub(super) fn while_chars(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// A string in quotes or a bare word; not empty.
    pub(super) fn string(&mut self) -> Option<String> {
        self.attempt(|t| t.string_or_empty().filter(|s| !s.is_empty()))
    }

    /// A string in quotes, which may be empty, or a bare word.
    pub(super) fn string_or_empty(&mut self) -> Option<String> {
        for quote in ['"', '\''] {
            if let Some(quoted) = self.rest.strip_prefix(quote) {
                let (inner, rest) = quoted.split_once(quote)?;
                self.rest = rest;
                return Some(inner.to_owned());
            }
        }
        let bare = self.while_chars(is_bare);
        (!bare.is_empty()).then(|| bare.to_owned())
    }

    /// `*` or `all`.
    pub(super) fn wildcard(&mut self) -> Option<()> {
        self.word("*").or_else(|| self.word("all"))
    }

    /// Letters of `rwx` in that order, at least one.
    pub(super) fn letters(&mut self) -> Option<u8> {
        let letters = [("r", right::R), ("w", right::W), ("x", right::X)];
        let bits =
            letters.iter().fold(0, |bits, (letter, bit)| bits | self.word(letter).map_or(0, |()| *bit));
        (bits != 0).then_some(bits)
    }

    /// `*`, `all`, or letters.
    pub(super) fn rights(&mut self) -> Option<u8> {
        self.wildcard().map(|()| right::ANY).or_else(|| self.letters())
    }

    /// The name in `profile NAME` or `allow profile NAME`.
    pub(super) fn profile(&mut self) -> Option<String> {
        let _ = self.attempt(|t| {
            t.word("allow")?;
            t.spaces()
        });
        self.word("profile")?;
        self.equals_or_spaces()?;
        self.string()
    }

    /// ` network 10.0.0.0/8`, if it is there.
    pub(super) fn network(&mut self) -> Option<Network> {
        self.attempt(|t| {
            t.spaced("network")?;
            t.spaces()?;
            let text = t.while_chars(|c| c.is_ascii_hexdigit() || matches!(c, '/' | '.' | ':' | '[' | ']'));
            (!text.is_empty()).then(|| Network::parse(text))
        })
    }
}

/// Reads grants between commas or semicolons, all of the text.
pub(super) fn list(text: &str, mut grant: impl FnMut(&mut Text<'_>) -> Option<()>) -> Result<(), CapsError> {
    let mut input = Text { rest: text };
    // What was understood; the error names the rest.
    let mut good = input;
    loop {
        let _ = input.spaces();
        let fits = grant(&mut input).is_some();
        if fits {
            let _ = input.spaces();
            good = input;
            if input.rest.is_empty() {
                return Ok(());
            }
        }
        if !fits || input.word(",").or_else(|| input.word(";")).is_none() {
            return Err(CapsError::Syntax { at: good.rest.to_owned() });
        }
    }
}

/// The network from which a grant may be used. As with Ceph, a text that makes no sense stands for no network at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network(Option<(IpAddr, u8)>);

impl Network {
    fn parse(text: &str) -> Network {
        let parse = || {
            let (ip, bits) = text.split_once('/')?;
            let ip: IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
            let bits: u8 = bits.parse().ok()?;
            let most = if ip.is_ipv4() { 32 } else { 128 };
            (bits <= most).then_some((ip, bits))
        };
        Network(parse())
    }

    pub(super) fn contains(&self, ip: IpAddr) -> bool {
        let same = |a: u128, b: u128, bits: u8, width: u32| {
            let shift = width - u32::from(bits);
            a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
        };
        match (self.0, ip) {
            (Some((IpAddr::V4(net), bits)), IpAddr::V4(ip)) => {
                same(u32::from(net).into(), u32::from(ip).into(), bits, 32)
            }
            (Some((IpAddr::V6(net), bits)), IpAddr::V6(ip)) => same(net.into(), ip.into(), bits, 128),
            (Some(_) | None, _) => false,
        }
    }
}
