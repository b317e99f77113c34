//! Small stores to be damaged, and the parts of them that have a checksum.

use std::{collections::BTreeMap, sync::LazyLock};

use codec::{AlignedBuf, BLOCK_BYTES, Decode, Encode, Features, Reader, crc32c};
use types::Pairs;

use super::*;
use crate::{
    DeviceCommand, DeviceRole, Inspected,
    index::{Root, Table, blob_crc},
    machine::{mount::Step, moves::mark},
    space::Run,
    superblock::{Blob, COPIES, Superblock},
};

/// Bytes of a superblock and of a label that say something, magic included.
const BLOCK_HEAD_BYTES: usize = 320;
/// Where a record's checksum is that counts last, and what it covers first.
const RECORD_CRC_AT: usize = 4;
const RECORD_KEY_END: usize = 24;
/// Where a record says how long its parts are, and their checksum.
const META_BYTES_AT: usize = 60;
const PAYLOAD_CRC_AT: usize = 72;
const RECORD_HEADER_BYTES: usize = 76;

/// Objects that only records change, which the checkpoint does not hold.
const LATE: u32 = 100;

/// What a store has of which there may be several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Superblock,
    Label,
    Root,
    Table(usize),
    Page(usize, usize),
    Pending(usize),
    Region(usize),
    Record(usize),
}

/// A store on its disk, and what it holds.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) disk: VirtualDisk,
    pub(super) config: Config,
    pub(super) model: MemStore,
    /// True while a split is under way.
    pub(super) is_moving: bool,
    pub(super) superblock: Superblock,
    pub(super) root: Root,
    pub(super) tables: Vec<Table>,
    /// Offsets and lengths.
    records: Vec<(u64, u64)>,
    /// Parts by kind.
    pub(super) parts: Vec<Vec<Part>>,
    /// As they were.
    pub(super) bytes: BTreeMap<Part, Vec<u8>>,
}

const LARGE_PAGES: usize = 0;
const SMALL_PAGES: usize = 1;
const THREE_DEVICES: usize = 2;
const MOVING: usize = 3;
pub(super) const SAMPLES: usize = 4;

static ALL: [LazyLock<Sample>; SAMPLES] = [
    LazyLock::new(|| Sample::make(LARGE_PAGES)),
    LazyLock::new(|| Sample::make(SMALL_PAGES)),
    LazyLock::new(|| Sample::make(THREE_DEVICES)),
    LazyLock::new(|| Sample::make(MOVING)),
];

pub(super) fn sample(number: usize) -> &'static Sample {
    &ALL[number]
}

/// A store and its model while both get the same transactions.
struct Twins {
    store: Store,
    model: MemStore,
    disk: VirtualDisk,
    rng: StdRng,
}

impl Twins {
    fn submit(&mut self, txn: Transaction) {
        self.model.submit(Token(1), txn.clone());
        self.store.submit(Token(1), txn);
    }

    fn settle(&mut self) {
        self.store.kick();
        settle(&mut self.store, &mut self.disk, &mut self.rng);
    }

    /// An object with a bit of everything.
    fn fill(&mut self, number: u32) {
        let bytes = |len: usize| Bytes::from(vec![number as u8 + 1; len]);
        let pairs = |name: &str, count: u32, len: usize| -> Pairs {
            (0..count).map(|at| (Bytes::from(format!("{name}{at}")), bytes(len))).collect()
        };
        let mut txn = Transaction::new(coll(0));
        let large = if number.is_multiple_of(5) { 80_000 } else { 5_000 };
        for mutation in [
            Mutation::Write { offset: 0, data: bytes(large).into() },
            Mutation::Write { offset: 100, data: bytes(10).into() },
            Mutation::SetXattrs(pairs("x", 2, 20)),
            Mutation::OmapSet(pairs("o", 6, 70)),
            Mutation::OmapSetHeader(bytes(5)),
        ] {
            txn.push(&object(number), mutation);
        }
        self.submit(txn);
    }
}

impl Sample {
    fn make(number: usize) -> Sample {
        let mut rng = StdRng::seed_from_u64(number as u64);
        let config = Config { journal_bytes: 512 << 10, ..config() };
        let config = match number {
            LARGE_PAGES => config,
            _ => Config { page_bytes_max: 256, step_objects_max: 1, ..config },
        };
        let sizes = match number {
            THREE_DEVICES => DeviceSizes { main: DISK_BYTES, journal: Some(1 << 20), index: Some(4 << 20) },
            _ => DISK_BYTES.into(),
        };
        let mut disk = formatted(sizes, &config);
        let store = disk.mount(config, &mut rng).unwrap();
        let mut twins = Twins { store, model: MemStore::new(), disk, rng };
        let mut txn = Transaction::new(coll(0));
        let record = HObject { oid: Bytes::from_static(b"record"), pool: PoolId(-2), ..HObject::default() };
        txn.push(
            &record,
            Mutation::OmapSet([(Bytes::from_static(b"info"), Bytes::from_static(b"of a PG"))].into()),
        );
        twins.submit(txn);
        (6..40).for_each(|number| twins.fill(number));
        twins.settle();
        for _ in 0..60 {
            let txn = random_txn(&mut twins.rng, &twins.model, 1);
            if !txn.ops.iter().any(|op| matches!(op, TxnOp::Split(_) | TxnOp::RemoveCollection)) {
                twins.submit(txn);
                twins.settle();
            }
        }
        // What is pending stays so in the checkpoint.
        (0..3).for_each(|number| twins.fill(number));
        twins.settle();
        twins.store.start_checkpoint();
        twins.settle();
        match number {
            MOVING => twins.begin_move(config),
            _ => {
                (LATE..LATE + 4).for_each(|number| twins.fill(number));
                twins.settle();
            }
        }
        twins.disk.crash_cleanly();
        let index_bytes_max = if number == LARGE_PAGES { u64::MAX } else { 0 };
        let config = Config { index_bytes_max, ..config };
        Sample::of(twins.disk, config, twins.model, number == MOVING)
    }

    /// What is on the disk.
    fn of(mut disk: VirtualDisk, config: Config, model: MemStore, is_moving: bool) -> Sample {
        let blocks = COPIES.map(|start| read(&mut disk, Run { start, count: 1 }));
        let superblocks = blocks.iter().filter_map(|block| Superblock::from_block(block));
        let superblock = superblocks.max_by_key(|superblock| superblock.sequence).unwrap();
        let root = Root::open(read_blob(&mut disk, &superblock.root)).unwrap();
        let tables: Vec<Table> =
            root.tables.iter().map(|(_, blob)| Table::open(read_blob(&mut disk, blob)).unwrap()).collect();
        let inspected = inspect(&mut disk, config).unwrap();
        let records = inspected.records().iter().map(|record| (record.offset, record.bytes)).collect();
        let (parts, bytes) = (Vec::new(), BTreeMap::new());
        let mut out =
            Sample { disk, config, model, is_moving, superblock, root, tables, records, parts, bytes };
        out.parts = out.all_parts();
        out.bytes = out.parts.concat().into_iter().map(|part| (part, out.read(part))).collect();
        out
    }

    fn all_parts(&mut self) -> Vec<Vec<Part>> {
        let mut pages = Vec::new();
        for (table, pages_of_it) in self.tables.iter().enumerate() {
            let placed = pages_of_it.pages.iter().enumerate().filter(|(_, (_, blob))| blob.bytes > 0);
            pages.extend(placed.map(|(page, _)| Part::Page(table, page)));
        }
        let is_marked = |bytes: &[u8]| bytes.windows(mark().oid.len()).any(|part| part == mark().oid);
        if self.is_moving {
            let all = std::mem::take(&mut pages);
            pages = all.into_iter().filter(|part| is_marked(&self.read(*part))).collect();
        }
        let regions = self.root.regions.iter().enumerate().filter(|(_, blob)| blob.bytes > 0);
        let labels = if self.disk.sizes().index.is_some() { vec![Part::Label] } else { Vec::new() };
        let parts = [
            vec![Part::Superblock],
            labels,
            vec![Part::Root],
            (0..self.tables.len()).map(Part::Table).collect(),
            pages,
            (0..self.root.pendings.len()).map(Part::Pending).collect(),
            regions.map(|(at, _)| Part::Region(at)).collect(),
            (0..self.records.len()).map(Part::Record).collect(),
        ];
        parts.into_iter().filter(|parts| !parts.is_empty()).collect()
    }

    /// One of its parts; each kind is as likely.
    pub(super) fn part(&self, at: [Index; 2]) -> Part {
        let kind = &self.parts[at[0].index(self.parts.len())];
        kind[at[1].index(kind.len())]
    }

    pub(super) fn blob(&self, part: Part) -> Option<&Blob> {
        match part {
            Part::Root => Some(&self.superblock.root),
            Part::Table(table) => Some(&self.root.tables[table].1),
            Part::Page(table, page) => Some(&self.tables[table].pages[page].1),
            Part::Pending(at) => Some(&self.root.pendings[at]),
            Part::Region(at) => Some(&self.root.regions[at]),
            Part::Superblock | Part::Label | Part::Record(_) => None,
        }
    }

    fn run(&self, part: Part) -> Run {
        match part {
            Part::Label => Run { start: DeviceRole::Index.base_block() + COPIES[0], count: 1 },
            Part::Record(at) => {
                let (offset, bytes) = self.records[at];
                Run { start: offset / BLOCK, count: bytes / BLOCK }
            }
            _ => Run { start: COPIES[(self.superblock.sequence % 2) as usize], count: 1 },
        }
    }

    /// A part as it is on the device.
    fn read(&mut self, part: Part) -> Vec<u8> {
        match self.blob(part).cloned() {
            Some(blob) => read_blob(&mut self.disk, &blob).to_vec(),
            None => {
                let run = self.run(part);
                read(&mut self.disk, run).to_vec()
            }
        }
    }

    /// Changes a part of a store, and makes all checksums right again.
    pub(super) fn damage(&mut self, part: Part, damages: &[Damage]) {
        let mut bytes = self.read(part);
        damage_part(part, &mut bytes, damages);
        self.put(part, &bytes);
    }

    /// Puts other bytes in a part's place, as many as there were, and makes all checksums above it right again.
    pub(super) fn put(&mut self, part: Part, bytes: &[u8]) {
        let Some(blob) = self.blob(part).cloned() else {
            let run = self.run(part);
            return write(&mut self.disk, &[run], bytes);
        };
        assert_eq!(bytes.len(), blob.bytes as usize);
        write(&mut self.disk, &blob.runs, bytes);
        let crc = blob_crc(bytes);
        match part {
            Part::Root => {
                self.superblock.root.crc = crc;
                let block = self.superblock.to_block();
                return self.put(Part::Superblock, &block);
            }
            Part::Table(table) => self.root.tables[table].1.crc = crc,
            Part::Page(table, page) => {
                self.tables[table].pages[page].1.crc = crc;
                let bytes = self.tables[table].to_bytes(Features::default());
                return self.put(Part::Table(table), &bytes);
            }
            Part::Pending(at) => self.root.pendings[at].crc = crc,
            Part::Region(at) => self.root.regions[at].crc = crc,
            Part::Superblock | Part::Label | Part::Record(_) => {}
        }
        let bytes = self.root.to_bytes(Features::default());
        self.put(Part::Root, &bytes);
    }
}

impl Twins {
    /// Splits the collection as far as a mount that finds the split under way.
    fn begin_move(&mut self, config: Config) {
        let mut txn = Transaction::new(coll(0));
        let record = HObject { oid: Bytes::from_static(b"record"), pool: PoolId(-2), ..HObject::default() };
        let omap = [(Bytes::from_static(b"info"), Bytes::from_static(b"child"))].into();
        let (from, to) = (HObject { pool: PoolId(1), ..HObject::default() }, object(20));
        txn.ops.push(TxnOp::Split(Box::new(CollSplit { child: coll(2), from, to, record, omap })));
        self.submit(txn);
        self.store.kick();
        let mut marked = None;
        while marked.is_none_or(|txn| self.store.committed_txn < txn) {
            if self.store.index.get(coll(0), &mark()).is_some() {
                marked.get_or_insert(self.store.last_txn);
            }
            self.disk.submit(self.store.take_commands());
            let (token, result) = self.disk.step(&mut self.rng).unwrap();
            self.store.device_done(token, result);
        }
        self.disk.crash_cleanly();
        let mut mount = Store::mount(self.disk.sizes(), config, JOURNAL_KEY);
        while !matches!(mount.step, Step::Moves(_)) {
            self.disk.submit(mount.take_commands());
            let (token, result) = self.disk.step(&mut self.rng).unwrap();
            mount.device_done(token, result);
        }
    }
}

/// Damages a part and makes its own checksums right again.
pub(super) fn damage_part(part: Part, bytes: &mut [u8], damages: &[Damage]) {
    let head = match part {
        // Without the magic there is nothing to find.
        Part::Superblock | Part::Label => &mut bytes[8..BLOCK_HEAD_BYTES],
        // What it says of itself, behind the key, and of its transactions.
        Part::Record(_) => {
            let end = RECORD_HEADER_BYTES + record_lengths(bytes)[0];
            &mut bytes[RECORD_KEY_END..end]
        }
        _ => &mut *bytes,
    };
    damages.iter().for_each(|damage| damage.overwrite(head));
    match part {
        Part::Superblock | Part::Label => seal_block(bytes),
        Part::Record(_) => seal_record(bytes),
        _ => {}
    }
}

fn seal_block(block: &mut [u8]) {
    block[12..16].fill(0);
    let crc = crc32c(u32::MAX, block);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Bytes of meta, where the payloads begin, their bytes, as a record says.
fn record_lengths(record: &[u8]) -> [usize; 3] {
    let mut lengths = Reader::new(Bytes::copy_from_slice(&record[META_BYTES_AT..PAYLOAD_CRC_AT]));
    [(); 3].map(|()| u32::decode(&mut lengths).unwrap() as usize)
}

/// Makes the checksums of a record right, if it says that it is no longer than it is.
fn seal_record(record: &mut [u8]) {
    let [meta, payload_at, payload] = record_lengths(record);
    if let Some(payload) = record.get(payload_at..payload_at.saturating_add(payload)) {
        let crc = crc32c(u32::MAX, payload);
        record[PAYLOAD_CRC_AT..][..4].copy_from_slice(&crc.to_le_bytes());
    }
    if let Some(covered) = record.get(RECORD_CRC_AT + 4..RECORD_HEADER_BYTES + meta) {
        let crc = crc32c(u32::MAX, covered);
        record[RECORD_CRC_AT..][..4].copy_from_slice(&crc.to_le_bytes());
    }
}

fn read(disk: &mut VirtualDisk, run: Run) -> Bytes {
    let (offset, len) = (run.start * BLOCK, run.count * BLOCK);
    disk.execute(DeviceCommand::Read { token: Token(1), offset, len }).1.unwrap().unwrap()
}

fn read_blob(disk: &mut VirtualDisk, blob: &Blob) -> Bytes {
    let mut bytes: Vec<u8> = blob.runs.iter().flat_map(|run| read(disk, *run)).collect();
    bytes.truncate(blob.bytes as usize);
    bytes.into()
}

/// Writes bytes to these blocks; what is left of the last one is zeros.
pub(super) fn write(disk: &mut VirtualDisk, runs: &[Run], bytes: &[u8]) {
    let blocks = runs.iter().flat_map(|run| run.start..run.end());
    for (block, part) in blocks.zip(bytes.chunks(BLOCK_BYTES)) {
        let data = [part, &vec![0; BLOCK_BYTES - part.len()]].concat();
        let (token, offset, data) = (Token(1), block * BLOCK, AlignedBuf::from_slice(&data).into());
        disk.execute(DeviceCommand::Write { token, offset, data, more: Vec::new(), durable: true })
            .1
            .unwrap();
    }
}

/// Opens a store as the tools do that only look at it.
pub(super) fn inspect(disk: &mut VirtualDisk, config: Config) -> Result<Inspected, MountError> {
    let mut mount = Store::inspect(disk.sizes(), config);
    let rng = &mut StdRng::seed_from_u64(1);
    disk.drive(rng, &mut mount, Mount::take_commands, Mount::device_done, Mount::take_inspected)
}

#[test]
fn samples_are_sound_and_have_all_parts() {
    for number in 0..SAMPLES {
        let mut sample = sample(number).clone();
        let mut rng = StdRng::seed_from_u64(1);
        let problems = sample.disk.fsck(sample.config, &mut rng).problems;
        assert!(problems.is_empty(), "sample {number}: {problems:?}");
        let counts: Vec<usize> = sample.parts.iter().map(Vec::len).collect();
        assert!(counts.len() >= [7, 7, 8, 5][number], "sample {number}: {counts:?}");
        assert!(number == LARGE_PAGES || sample.tables.len() > 1, "sample {number}: {counts:?}");
        let mut store = sample.disk.mount(sample.config, &mut rng).unwrap();
        assert_same(&mut store, &sample.model, &mut sample.disk, &mut rng);
    }
}

#[test]
fn the_same_bytes_in_their_place_change_nothing() {
    for number in 0..SAMPLES {
        let mut sample = sample(number).clone();
        let mut rng = StdRng::seed_from_u64(1);
        for part in sample.parts.concat() {
            sample.damage(part, &[]);
        }
        for part in sample.parts.concat() {
            assert_eq!(sample.read(part), sample.bytes[&part], "sample {number}: {part:?}");
        }
        let problems = sample.disk.fsck(sample.config, &mut rng).problems;
        assert!(problems.is_empty(), "sample {number}: {problems:?}");
    }
}
