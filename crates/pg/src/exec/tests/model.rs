//! Random requests against a model that is too simple to be wrong.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Codec, Decode};
use messages::{OpCode, OpParams, OsdOp};
use store::ObjectStore;
use types::{Errno, HObject, SnapId};

use super::{
    bench::{Bench, encoded, plain, range, snap, step, xattr},
    snaps::trim,
};

/// Numbers from a seed (a linear congruential generator): the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn bytes(&mut self, len_max: u64) -> Bytes {
        let len = self.below(len_max + 1);
        (0..len).map(|_| b'a' + self.below(26) as u8).collect::<Vec<u8>>().into()
    }

    fn key(&mut self) -> Bytes {
        Bytes::from(format!("k{}", self.below(6)))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Object {
    data: Vec<u8>,
    xattrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
    header: Bytes,
}

type Model = Option<Object>;

impl Object {
    fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        self.data.resize(self.data.len().max(end), 0);
        self.data[offset..end].copy_from_slice(data);
    }
}

/// What an op does to the model.
type Act = Box<dyn Fn(&mut Model) -> Result<(), Errno>>;

fn act(act: impl Fn(&mut Object) + 'static) -> Act {
    Box::new(move |model| {
        act(model.get_or_insert_default());
        Ok(())
    })
}

fn act_on_existing(act: impl Fn(&mut Object) + 'static) -> Act {
    Box::new(move |model| model.as_mut().map(&act).ok_or(Errno::ENOENT))
}

/// A random op, and what it does to the model.
fn random_op(n: &mut Numbers) -> (OsdOp, Act) {
    match n.below(14) {
        0 => (plain(OpCode::DELETE), Box::new(|model| model.take().map(drop).ok_or(Errno::ENOENT))),
        1..=6 => data_op(n),
        _ => key_op(n),
    }
}

fn data_op(n: &mut Numbers) -> (OsdOp, Act) {
    let (offset, len, data) = (n.below(24), n.below(16) + 1, n.bytes(12));
    let (at, end) = (offset as usize, (offset + len) as usize);
    let extent = |code, offset| step(code, OpParams::extent(offset, data.len() as u64), data.clone());
    match n.below(6) {
        0 => (extent(OpCode::WRITEFULL, 0), act(move |o| o.data = data.to_vec())),
        1 => (extent(OpCode::APPEND, 0), act(move |o| o.data.extend_from_slice(&data))),
        2 => {
            let cut: Act = Box::new(move |model| {
                model.iter_mut().for_each(|o| o.data.resize(at, 0));
                Ok(())
            });
            (range(OpCode::TRUNCATE, offset, 0), cut)
        }
        3 => {
            let clear: Act = Box::new(move |model| {
                let Some(o) = model.as_mut().filter(|o| at < o.data.len()) else { return Ok(()) };
                if end < o.data.len() {
                    o.data[at..end].fill(0);
                } else {
                    o.data.truncate(at);
                }
                Ok(())
            });
            (range(OpCode::ZERO, offset, len), clear)
        }
        _ if data.is_empty() => {
            let grow = act(move |o: &mut Object| o.data.resize(o.data.len().max(at), 0));
            (extent(OpCode::WRITE, offset), grow)
        }
        _ => (extent(OpCode::WRITE, offset), act(move |o| o.write(at, &data))),
    }
}

fn key_op(n: &mut Numbers) -> (OsdOp, Act) {
    let (key, last, value) = (n.key(), n.key(), n.bytes(12));
    let name = String::from_utf8(key.to_vec()).unwrap();
    match n.below(8) {
        0 => {
            let set = act(move |o| drop(o.xattrs.insert(key.clone(), "v".into())));
            (xattr(OpCode::SETXATTR, &name, "v"), set)
        }
        1 => {
            let remove = act_on_existing(move |o| drop(o.xattrs.remove(&key)));
            (xattr(OpCode::RMXATTR, &name, ""), remove)
        }
        2 | 3 => {
            let entries: BTreeMap<Bytes, Bytes> = [(key, value.clone()), (last, value)].into();
            let op = encoded(OpCode::OMAPSETVALS, entries.clone());
            (op, act(move |o| o.omap.extend(entries.clone())))
        }
        4 => {
            let op = encoded(OpCode::OMAPRMKEYS, vec![key.clone()]);
            (op, act_on_existing(move |o| drop(o.omap.remove(&key))))
        }
        5 => {
            let op = encoded(OpCode::OMAPRMKEYRANGE, (key.clone(), last.clone()));
            (op, act_on_existing(move |o| o.omap.retain(|k, _| *k < key || *k >= last)))
        }
        6 => {
            let clear = act_on_existing(|o| {
                o.omap.clear();
                o.header = Bytes::new();
            });
            (plain(OpCode::OMAPCLEAR), clear)
        }
        _ => {
            let op = step(OpCode::OMAPSETHEADER, OpParams::default(), value.clone());
            (op, act(move |o| o.header = value.clone()))
        }
    }
}

/// Everything of the object, by requests that only read.
fn read_all(bench: &mut Bench, snapid: SnapId) -> Model {
    let ops = vec![
        range(OpCode::READ, 0, 0),
        plain(OpCode::GETXATTRS),
        encoded(OpCode::OMAPGETVALS, (Bytes::new(), 1000u64, Bytes::new())),
        plain(OpCode::OMAPGETHEADER),
    ];
    let done = match bench.at(snapid, ops) {
        Ok(done) => done,
        Err(Errno::ENOENT) => return None,
        Err(errno) => panic!("{errno:?}"),
    };
    let data = |at: usize| done.ops[at].data.clone();
    let (omap, has_more) = <(BTreeMap<Bytes, Bytes>, bool)>::from_bytes(data(2)).unwrap();
    assert!(!has_more && done.result == 0);
    let xattrs = <BTreeMap<Bytes, Bytes>>::from_bytes(data(1)).unwrap();
    Some(Object { data: data(0).to_vec(), xattrs, omap, header: data(3) })
}

/// Runs a random request on both; the model changes only if all goes well.
fn random_request(bench: &mut Bench, model: &mut Model, n: &mut Numbers) {
    let (mut ops, mut after, mut expect) = (Vec::new(), model.clone(), Ok(()));
    for _ in 0..=n.below(4) {
        let (op, act) = random_op(n);
        ops.push(op);
        if expect.is_ok() {
            expect = act(&mut after);
        }
    }
    // What the ops left, read by the last of the same request.
    ops.push(range(OpCode::READ, 0, 60));
    let what = format!("{ops:?}");
    let done = bench.run(ops).unwrap();
    assert_eq!(done.result, expect.map_or_else(Errno::negated, |()| 0), "{what}");
    if done.result == 0 {
        let seen = &done.ops.last().unwrap().data;
        let data = after.as_ref().map_or(&[][..], |o| &o.data);
        assert_eq!(seen.as_ref(), &data[..data.len().min(60)], "{what}");
        *model = after;
    }
}

#[test]
fn requests_do_what_a_plain_model_does() {
    for seed in 0..60 {
        let (mut n, mut bench, mut model) = (Numbers(seed), Bench::new(), None);
        bench.return_outputs();
        for _ in 0..60 {
            random_request(&mut bench, &mut model, &mut n);
            assert_eq!(read_all(&mut bench, SnapId::HEAD), model, "seed {seed}");
        }
    }
}

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Listed {
    id: SnapId,
    snaps: Vec<SnapId>,
    overlap: Vec<(u64, u64)>,
    size: u64,
}

#[derive(Codec)]
#[codec(version = 2, compat = 1)]
struct ListedSnaps {
    clones: Vec<Listed>,
    seq: SnapId,
}

/// Clones tell truly where they are the same as what is next newer.
fn check_overlaps(bench: &mut Bench, head: &Model) {
    let done = match bench.at(SnapId::DIR, vec![plain(OpCode::LIST_SNAPS)]) {
        Ok(done) => done,
        // Neither a head nor a clone.
        Err(Errno::ENOENT) => return,
        Err(errno) => panic!("{errno:?}"),
    };
    let listed = ListedSnaps::from_bytes(done.ops[0].data.clone()).unwrap().clones;
    for pair in listed.windows(2) {
        let older = read_all(bench, pair[0].snaps[0]).unwrap().data;
        let newer = match pair[1].snaps.first() {
            Some(snap) => read_all(bench, *snap).unwrap().data,
            None => head.as_ref().unwrap().data.clone(),
        };
        assert_eq!(pair[0].size, older.len() as u64);
        for (offset, len) in &pair[0].overlap {
            let same = *offset as usize..(offset + len) as usize;
            assert_eq!(older.get(same.clone()), newer.get(same.clone()), "{same:?}");
            assert!(older.get(same).is_some());
        }
    }
}

/// Totals that the log's changes add up to are those of what is stored.
pub(super) fn check_totals(bench: &Bench) {
    let objects = bench.store.list(bench.ctx.coll, &HObject::min(), usize::MAX).unwrap();
    let size = |o: &HObject| bench.store.meta(bench.ctx.coll, o).unwrap().unwrap().size as i64;
    assert_eq!(bench.total.objects, objects.len() as i64);
    assert_eq!(bench.total.bytes, objects.iter().map(size).sum::<i64>());
    assert_eq!(bench.total.clones, objects.iter().filter(|o| !o.is_head()).count() as i64);
}

#[test]
fn snapshots_show_what_was_whatever_happens_after() {
    for seed in 0..60 {
        let (mut n, mut bench) = (Numbers(seed), Bench::new());
        let mut model: Model = None;
        let mut snaps: BTreeMap<u64, Model> = BTreeMap::new();
        let mut removed: Vec<u64> = Vec::new();
        bench.return_outputs();
        for next in 1..80 {
            match n.below(10) {
                0 | 1 => {
                    bench.make_snap(next);
                    snaps.insert(next, model.clone());
                }
                2 if !snaps.is_empty() => {
                    let gone = *snaps.keys().nth(n.below(snaps.len() as u64) as usize).unwrap();
                    snaps.remove(&gone);
                    removed.push(gone);
                    bench.snapc.snaps.retain(|s| s.0 != gone);
                    if n.below(2) == 0 {
                        trim(&mut bench, &removed);
                    }
                }
                3 if !snaps.is_empty() => {
                    let (id, then) = snaps.iter().nth(n.below(snaps.len() as u64) as usize).unwrap();
                    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, *id)]), 0);
                    model = then.clone();
                }
                _ => random_request(&mut bench, &mut model, &mut n),
            }
            assert_eq!(read_all(&mut bench, SnapId::HEAD), model, "seed {seed} step {next}");
            for (id, then) in &snaps {
                assert_eq!(read_all(&mut bench, SnapId(*id)), *then, "seed {seed} step {next} snap {id}");
            }
            check_overlaps(&mut bench, &model);
            check_totals(&bench);
        }
        removed.extend(snaps.keys());
        trim(&mut bench, &removed);
        let left = bench.store.list(bench.ctx.coll, &HObject::min(), 9).unwrap().len();
        assert_eq!(left, usize::from(model.is_some()), "seed {seed}");
    }
}
