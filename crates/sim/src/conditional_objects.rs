//! An object that all clients change under conditions: what each was told must fit to one order of all changes.
//!
//! A class method adds to a counter. A client takes a turn if it finds the turn as it was when it was read last. A
//! claim is an object that only one client can create, and that no other client deletes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use client::Response;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp, op_flag};
use rand::{Rng, rngs::StdRng};
use types::Errno;

use crate::change::{EQUAL_STRINGS, step, xattr_step};

const COUNTER: &str = "counter";
const CLAIM: &str = "claim";
const KEY: &[u8] = b"n";
const TURN: &[u8] = b"turn";

/// What all clients know together.
#[derive(Debug, Default)]
pub(crate) struct ConditionalObjects {
    /// What was added to the counter, begun and acknowledged.
    begun: u64,
    acknowledged: u64,
    /// The largest that was read.
    seen: u64,
    /// The turn that was read last.
    turn: Bytes,
    /// The turns that were taken, each with its client and how many were taken before it was known.
    taken: BTreeMap<Bytes, (u64, usize)>,
    /// Turns that clients were told not to have brought about.
    refused: BTreeSet<Bytes>,
    /// The client whose claim was acknowledged and that has not begun to give it up.
    holder: Option<u64>,
    /// Clients that give up what they hold.
    giving_up: BTreeSet<u64>,
    /// Clients that claim: true if another client may have held the claim meanwhile.
    claiming: BTreeMap<u64, bool>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) enum InFlightOp {
    Add(u64),
    /// At least this must be found, and none of the first so many turns that were taken.
    Read {
        least: u64,
        taken: usize,
    },
    /// From this one to the next.
    Take {
        client: u64,
        from: Bytes,
        next: Bytes,
    },
    Claim(u64),
    GiveUp(u64),
    /// Whether the claim is held, when nothing is under way.
    ReadClaim,
}

impl ConditionalObjects {
    /// A client's next request, if it has one.
    pub(crate) fn next(&mut self, client: u64, rng: &mut StdRng) -> (Bytes, Vec<OsdOp>, InFlightOp) {
        match rng.random_range(0..8) {
            0..3 => self.add(rng.random_range(1..100)),
            3 => self.read(),
            4..6 => self.take(client, rng.random()),
            _ if self.claiming.contains_key(&client) || self.giving_up.contains(&client) => self.read(),
            _ => self.claim(client),
        }
    }

    /// True for a client that has the claim, or may have it.
    pub(crate) fn is_claimed_by(&self, client: u64) -> bool {
        self.holder == Some(client) || self.claiming.contains_key(&client) || self.giving_up.contains(&client)
    }

    fn add(&mut self, by: u64) -> (Bytes, Vec<OsdOp>, InFlightOp) {
        self.begun += by;
        let input = (Bytes::from_static(KEY), Bytes::from(by.to_string())).to_bytes(Features::default());
        let (class, method) = ("numops", "add");
        let lengths = [class.len() as u8, method.len() as u8, 0];
        let params = OpParams::from_parts(&[&lengths, &(input.len() as u32).to_le_bytes()]);
        let data = Bytes::from([class.as_bytes(), method.as_bytes(), &input].concat());
        (Bytes::from(COUNTER), vec![step(OpCode::CALL, params, data)], InFlightOp::Add(by))
    }

    /// Reads counter and turn.
    pub(crate) fn read(&self) -> (Bytes, Vec<OsdOp>, InFlightOp) {
        let all = (Bytes::new(), 1_000u64, Bytes::new()).to_bytes(Features::default());
        let ops = vec![step(OpCode::OMAPGETVALS, OpParams::default(), all), OsdOp::new(OpCode::GETXATTRS)];
        let (least, taken) = (self.acknowledged.max(self.seen), self.taken.len());
        (Bytes::from(COUNTER), ops, InFlightOp::Read { least, taken })
    }

    /// Looks for the claim, when all else has ended.
    pub(crate) fn read_claim(&self) -> (Bytes, Vec<OsdOp>, InFlightOp) {
        (Bytes::from(CLAIM), vec![OsdOp::new(OpCode::STAT)], InFlightOp::ReadClaim)
    }

    fn take(&mut self, client: u64, stamp: u32) -> (Bytes, Vec<OsdOp>, InFlightOp) {
        let from = self.turn.clone();
        let next = Bytes::from(format!("{client}.{stamp}.{}", self.taken.len()));
        let ops = vec![
            xattr_step(OpCode::CMPXATTR, TURN, &from, EQUAL_STRINGS),
            xattr_step(OpCode::SETXATTR, TURN, &next, [0; 2]),
        ];
        (Bytes::from(COUNTER), ops, InFlightOp::Take { client, from, next })
    }

    fn claim(&mut self, client: u64) -> (Bytes, Vec<OsdOp>, InFlightOp) {
        if self.holder == Some(client) {
            self.holder = None;
            self.giving_up.insert(client);
            return (Bytes::from(CLAIM), vec![OsdOp::new(OpCode::DELETE)], InFlightOp::GiveUp(client));
        }
        let may_be_held = self.holder.is_some() || !self.giving_up.is_empty() || !self.claiming.is_empty();
        self.claiming.values_mut().for_each(|may_be_held| *may_be_held = true);
        self.claiming.insert(client, may_be_held);
        let create = OsdOp { flags: op_flag::EXCL, ..OsdOp::new(OpCode::CREATE) };
        (Bytes::from(CLAIM), vec![create], InFlightOp::Claim(client))
    }

    /// Compares what came, and takes it as done.
    pub(crate) fn done(&mut self, in_flight: InFlightOp, response: &Response) -> Result<(), String> {
        match in_flight {
            InFlightOp::Add(by) => {
                self.acknowledged += by;
                expect(response, &[Errno(0)])
            }
            InFlightOp::Read { least, taken } => self.on_read(least, taken, response),
            InFlightOp::Take { client, from, next } => {
                expect(response, &[Errno(0), Errno::ECANCELED, Errno::ENOENT])?;
                if response.result != 0 {
                    self.refused.insert(next);
                    return self.check_turn();
                }
                match self.taken.insert(from.clone(), (client, self.taken.len())) {
                    Some((other, _)) => {
                        Err(format!("client {client} takes the turn {from:?}, as client {other} did"))
                    }
                    None => Ok(()),
                }
            }
            InFlightOp::Claim(client) => {
                let may_be_held = self.claiming.remove(&client).unwrap_or_default();
                expect(response, if may_be_held { &[Errno(0), Errno::EEXIST] } else { &[Errno(0)] })?;
                match self.holder.filter(|_| response.result == 0) {
                    Some(other) => {
                        Err(format!("client {client} is told that it has what client {other} holds"))
                    }
                    None if response.result == 0 => {
                        self.holder = Some(client);
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            InFlightOp::GiveUp(client) => {
                self.giving_up.remove(&client);
                expect(response, &[Errno(0)])
            }
            InFlightOp::ReadClaim => {
                expect(response, &[if self.holder.is_some() { Errno(0) } else { Errno::ENOENT }])
            }
        }
    }

    /// What was read last is nothing that a client was told not to have done.
    fn check_turn(&self) -> Result<(), String> {
        match self.refused.contains(&self.turn) {
            true => Err(format!("the turn is {:?}, which was refused", self.turn)),
            false => Ok(()),
        }
    }

    fn on_read(&mut self, least: u64, taken: usize, response: &Response) -> Result<(), String> {
        if response.result == -Errno::ENOENT.0 && least == 0 && taken == 0 {
            return Ok(());
        }
        let [omap, xattrs] = &response.ops[..] else {
            return Err(format!("a read of the counter ended with {}", response.result));
        };
        expect(response, &[Errno(0)])?;
        let broken = |error| format!("what was read is not decodable: {error}");
        let (omap, _) = <(BTreeMap<Bytes, Bytes>, bool)>::from_bytes(omap.data.clone()).map_err(broken)?;
        let xattrs = BTreeMap::<Bytes, Bytes>::from_bytes(xattrs.data.clone()).map_err(broken)?;
        let text = omap.get(KEY).map(|text| String::from_utf8_lossy(text).into_owned());
        let found =
            text.map_or(Ok(0), |text| text.parse::<u64>().map_err(|_| format!("it counts {text}")))?;
        if found < least || found > self.begun {
            return Err(format!("the counter is {found}, between {least} and {} are right", self.begun));
        }
        self.seen = self.seen.max(found);
        self.turn = xattrs.get(TURN).cloned().unwrap_or_default();
        if let Some((client, before)) = self.taken.get(&self.turn).filter(|(_, before)| *before < taken) {
            let turn = &self.turn;
            return Err(format!("the turn is {turn:?}, which client {client} took as number {before}"));
        }
        self.check_turn()
    }
}

fn expect(response: &Response, right: &[Errno]) -> Result<(), String> {
    match right.contains(&Errno(-response.result)) {
        true => Ok(()),
        false => Err(format!("a request on a conditional object ended with {}", response.result)),
    }
}
