//! How much is read from the device at a time.

use std::collections::BTreeMap;

use super::*;
use crate::DeviceCommand;

#[test]
fn no_more_is_read_at_a_time_than_there_is_memory_for() {
    const OBJECTS: u32 = 9;
    const OBJECT_BYTES: u64 = 8 << 10;
    let mut rng = StdRng::seed_from_u64(1);
    let config = Config { small_write_bytes_max: BLOCK, cache_bytes_max: 0, ..config() };
    let mut disk = formatted(DISK_BYTES, &config);
    let mut store = disk.mount(config, &mut rng).unwrap();
    let c = coll(1);
    let mut txn = Transaction::new(c);
    txn.ops.push(TxnOp::CreateCollection);
    // The last one is longer than all that may be read at a time.
    let len = |number: u32| if number == OBJECTS { config.reading_bytes_max * 4 } else { OBJECT_BYTES };
    for number in 0..=OBJECTS {
        let data = Bytes::from(vec![number as u8; len(number) as usize]).into();
        txn.push(&object(number), Mutation::Write { offset: 0, data });
    }
    store.submit(Token(0), txn);
    store.kick();
    settle(&mut store, &mut disk, &mut rng);
    for number in 0..=OBJECTS {
        let (o, offset) = (object(number), 0);
        let missing = NotCached::Data { coll: c, object: o, offset, len: len(number) };
        store.load(Token(u64::from(number)), missing);
    }
    let (mut reading, mut most, mut loaded) = (BTreeMap::new(), 0, 0);
    loop {
        store.kick();
        for command in store.take_commands() {
            if let DeviceCommand::Read { token, len, .. } = &command {
                reading.insert(*token, *len);
            }
            disk.submit([command]);
        }
        let bytes: u64 = reading.values().sum();
        assert!(bytes <= config.reading_bytes_max || reading.len() == 1, "{reading:?}");
        most = most.max(bytes);
        for done in store.take_completions() {
            let Completion::Loaded(token, Ok(())) = done else { panic!("{done:?}") };
            store.unload(token);
            loaded += 1;
        }
        let Some((token, result)) = disk.step(&mut rng) else { break };
        reading.remove(&token);
        store.device_done(token, result);
    }
    assert_eq!((loaded, most), (OBJECTS + 1, len(OBJECTS)));
}
