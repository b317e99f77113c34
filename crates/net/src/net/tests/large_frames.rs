//! Clients that send large messages, or begin to.

use messages::{MOSDOp, OpCode, OsdOp};
use types::{Epoch, Errno};

use super::{
    pair::{Pair, ping},
    *,
};
use crate::net::{
    large_frames::{FRAME_BYTES_SMALL, UNDER_WAY_BYTES_MAX},
    pressure::QUEUED_BYTES_HIGH,
};

const MIB: usize = 1 << 20;

/// What the first one has said and the second one has not heard, by connection.
type Unheard = BTreeMap<u32, Vec<Bytes>>;

impl Pair {
    /// The second one, an OSD, and as many connections to it, from 1 on; their ids where they were dialed.
    fn with_clients(dialer: EntityType, count: u32) -> (Pair, Vec<u64>) {
        let mut pair = Pair::between(dialer, EntityType::OSD);
        let addrs = EntityAddrVec(vec![EntityAddr::parse("v2:127.0.0.1:6800/7").unwrap()]);
        let dial = |conn| {
            let id = pair.nets[0].dial(&addrs, &mut pair.ends[0]).unwrap();
            pair.event(1, WireEvent::Accepted(conn, "127.0.0.1:50000".parse().unwrap()));
            pair.event(0, WireEvent::Connected(conn));
            pair.run();
            id
        };
        let ids = (1..=count).map(dial).collect();
        pair.told[1].clear();
        (pair, ids)
    }

    /// The first one sends a message with so much data over each of these connections. The second one hears the
    /// beginning.
    fn begin(&mut self, ids: &[u64], bytes: usize) -> Unheard {
        let raw = RawMessage { data: Bytes::from(vec![0; bytes]).into(), ..ping().encode(0) };
        let message = Message::Unknown(Box::new(RawMessage { kind: u16::MAX, ..raw }));
        let mut unheard = Unheard::new();
        for id in ids {
            self.nets[0].send(*id, 0, &message, &mut self.ends[0]);
            let (conn, mut bytes) = self.ends[0].said.pop_front().unwrap();
            self.event(1, WireEvent::Received(conn, bytes.remove(0), Vec::new()));
            unheard.insert(conn, bytes);
        }
        unheard
    }

    /// The rest comes of a frame that is expected.
    fn complete(&mut self, conn: u32, unheard: &mut Unheard) {
        assert!(!self.ends[1].paused.contains(&conn));
        let part = self.ends[1].expected.remove(&conn).unwrap();
        let rest = unheard.remove(&conn).unwrap().concat();
        let whole = [part.have.concat(), rest].concat();
        assert_eq!(whole.len(), part.bytes);
        self.event(1, WireEvent::Received(conn, whole.into(), Vec::new()));
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.ends[1].now = self.ends[1].now + Duration::from_secs(1);
            self.nets[1].tick(&mut self.ends[1], &mut self.told[1]);
        }
    }

    /// The connections whose large frames are received, and those that wait.
    fn split(&self) -> (Vec<u32>, Vec<u32>) {
        let [expected, paused] =
            [self.ends[1].expected.keys().copied().collect(), self.ends[1].paused.iter().copied().collect()];
        (expected, paused)
    }

    /// How many messages the second one was given.
    fn heard(&self) -> usize {
        self.told[1].iter().filter(|event| matches!(event, NetEvent::Received(..))).count()
    }
}

#[test]
fn large_frames_of_clients_wait_for_each_other_in_their_order() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 5);
    let mut unheard = pair.begin(&ids[..3], 100 * MIB);
    assert_eq!(pair.split(), (vec![1, 2], vec![3]));
    assert!(pair.nets[1].large.bytes <= UNDER_WAY_BYTES_MAX);
    unheard.extend(pair.begin(&ids[3..4], 6 * MIB));
    assert_eq!(pair.split(), (vec![1, 2], vec![3, 4]), "it would fit, but is not the first");
    unheard.extend(pair.begin(&ids[4..], FRAME_BYTES_SMALL - MIB));
    assert_eq!(pair.split(), (vec![1, 2, 5], vec![3, 4]), "small ones wait for none");
    for conn in [5, 1, 2, 4, 3] {
        pair.complete(conn, &mut unheard);
    }
    assert_eq!((pair.heard(), pair.split()), (5, (vec![], vec![])));
    assert_eq!(pair.nets[1].large.bytes, 0);
}

#[test]
fn large_frames_of_osds_wait_for_none() {
    let (mut pair, ids) = Pair::with_clients(EntityType::OSD, 3);
    pair.begin(&ids, 100 * MIB);
    assert_eq!(pair.split(), (vec![1, 2, 3], vec![]));
}

#[test]
fn a_client_that_does_not_complete_its_message_is_closed_if_others_wait() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 3);
    pair.begin(&ids[..2], 100 * MIB);
    pair.seconds(1000);
    assert!(pair.ends[1].closed.is_empty(), "nobody waits");
    let mut unheard = pair.begin(&ids[2..], 100 * MIB);
    assert_eq!(pair.split().1, [3]);
    pair.seconds(1);
    assert_eq!(pair.ends[1].closed, [1, 2]);
    pair.complete(3, &mut unheard);
    assert_eq!((pair.heard(), pair.nets[1].large.bytes), (1, 0));
}

#[test]
fn the_time_in_which_clients_are_held_is_not_theirs() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 3);
    pair.begin(&ids, 100 * MIB);
    pair.nets[1].hold_clients(true, &mut pair.ends[1]);
    pair.seconds(1000);
    assert!(pair.ends[1].closed.is_empty());
    pair.nets[1].hold_clients(false, &mut pair.ends[1]);
    assert_eq!(pair.split(), (vec![1, 2], vec![3]), "one waits for room still");
    pair.seconds(109);
    assert!(pair.ends[1].closed.is_empty());
    pair.seconds(1);
    assert_eq!(pair.ends[1].closed, [1, 2]);
    assert!(pair.split().1.is_empty());
}

/// One that does not take its answers is received from no more, by its own doing.
#[test]
fn a_client_that_takes_no_answers_does_not_keep_others_waiting_with_its_message() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 3);
    pair.begin(&ids, 100 * MIB);
    let id = pair.nets[1].links[&1].id;
    pair.ends[1].queued_on.insert(1, QUEUED_BYTES_HIGH + 1);
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    assert_eq!(pair.split().1, [1, 3]);
    for second in 0..109 {
        // It takes a little again and again.
        pair.ends[1].queued_on.insert(1, QUEUED_BYTES_HIGH - second);
        pair.seconds(1);
    }
    assert!(pair.ends[1].closed.is_empty());
    pair.seconds(1);
    assert_eq!(pair.ends[1].closed, [1, 2]);
}

#[test]
fn a_frame_that_waits_goes_with_its_connection() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 4);
    let mut unheard = pair.begin(&ids, 100 * MIB);
    pair.event(1, WireEvent::Closed(3));
    pair.event(1, WireEvent::Closed(1));
    pair.seconds(1);
    assert_eq!(pair.ends[1].expected.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
    pair.complete(2, &mut unheard);
    pair.complete(4, &mut unheard);
    assert_eq!((pair.heard(), pair.nets[1].large.bytes), (2, 0));
}

/// The wire may hand over what it had received before.
#[test]
fn a_frame_that_waits_and_comes_nevertheless_is_taken() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 3);
    let mut unheard = pair.begin(&ids, 100 * MIB);
    let whole = Bytes::from(unheard.remove(&3).unwrap().concat());
    for (part, paused) in [(whole.slice(..MIB), vec![3]), (whole.slice(MIB..), vec![])] {
        pair.event(1, WireEvent::Received(3, part, Vec::new()));
        assert_eq!(pair.split(), (vec![1, 2], paused));
    }
    assert_eq!(pair.heard(), 1);
}

/// Its client would send it again over the next connection.
#[test]
fn a_request_with_more_than_is_taken_is_refused_over_its_connection() {
    let (mut pair, ids) = Pair::with_clients(EntityType::CLIENT, 1);
    let write = OsdOp { data: Bytes::from(vec![0; 129 * MIB]), ..OsdOp::new(OpCode::WRITEFULL) };
    let op = MOSDOp { epoch: Epoch(7), oid: "o".into(), ops: vec![write], ..MOSDOp::default() };
    pair.nets[0].send(ids[0], 5, &op.into(), &mut pair.ends[0]);
    pair.nets[0].send(ids[0], 6, &ping(), &mut pair.ends[0]);
    pair.run();
    assert_eq!((pair.split(), &pair.ends[1].closed[..]), ((vec![], vec![]), &[][..]));
    assert_eq!(pair.heard(), 1, "what came behind it");
    let refused = pair.told[0].iter().find_map(|event| match event {
        NetEvent::Received(_, tid, Message::MOSDOpReply(reply)) => Some((*tid, reply.result, reply.epoch)),
        _ => None,
    });
    assert_eq!(refused, Some((5, Errno::EMSGSIZE.negated(), Epoch(7))));
}
