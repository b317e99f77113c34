//! What stays, what goes, and what memory is held.

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;

fn put(cache: &mut Cache, device: u64, count: usize) {
    let crcs = (0..count).map(|at| device as u32 + at as u32).collect();
    cache.insert(device, Bytes::from(vec![device as u8; count * BLOCK_BYTES]), crcs, Retention::Cached);
    cache.evict();
}

fn has(cache: &Cache, device: u64) -> bool {
    cache.get(device, &[device as u32]).is_some()
}

#[test]
fn one_pass_over_much_data_evicts_nothing_that_is_used() {
    let mut cache = Cache::new(100 * BLOCK);
    for round in 0..4 {
        for device in 0..50 {
            if !has(&cache, device) {
                assert!(round < 2, "block {device} was evicted in round {round}");
                put(&mut cache, device, 1);
            }
        }
        (1000 * (round + 1)..).take(400).for_each(|device| put(&mut cache, device, 1));
        assert!(cache.bytes() <= 100 * BLOCK);
    }
}

#[test]
fn parts_of_segments_go_and_the_rest_stays() {
    let mut cache = Cache::new(100 * BLOCK);
    put(&mut cache, 10, 10);
    cache.remove(Run { start: 12, count: 1 });
    assert!(!has(&cache, 12) && has(&cache, 10) && has(&cache, 11) && has(&cache, 19));
    assert_eq!(cache.get(13, &[13, 14, 15]).unwrap().len(), 3 * BLOCK_BYTES);
    assert_eq!(cache.get(10, &[10, 11, 12]).unwrap().len(), 2 * BLOCK_BYTES);
    assert!(cache.get(13, &[99]).is_none());
    assert_eq!(cache.bytes(), 10 * BLOCK, "the memory of the one that is gone is still held");
    put(&mut cache, 14, 3);
    assert_eq!(cache.bytes(), 13 * BLOCK);
    assert!(has(&cache, 11) && has(&cache, 13) && has(&cache, 14) && has(&cache, 17));
}

#[test]
fn a_buffer_goes_when_most_of_it_is_of_no_use() {
    let mut cache = Cache::new(100 * BLOCK);
    put(&mut cache, 10, 10);
    put(&mut cache, 20, 1);
    assert_eq!(cache.pin(Run { start: 20, count: 1 }).len(), 1);
    for device in [11, 13, 15, 17, 19] {
        cache.remove(Run { start: device, count: 1 });
        assert!(has(&cache, 10) && has(&cache, 18));
    }
    put(&mut cache, 11, 1);
    assert_eq!(cache.bytes(), 12 * BLOCK);
    cache.remove(Run { start: 12, count: 1 });
    assert!(!has(&cache, 10) && !has(&cache, 14) && !has(&cache, 18));
    assert!(has(&cache, 11) && has(&cache, 20), "they have memory of their own");
    assert_eq!(cache.bytes(), 2 * BLOCK);
}

#[test]
fn what_is_held_of_a_buffer_keeps_its_memory_until_it_goes() {
    let mut cache = Cache::new(100 * BLOCK);
    put(&mut cache, 10, 10);
    let held = cache.pin(Run { start: 10, count: 1 });
    cache.remove(Run { start: 11, count: 8 });
    assert!(has(&cache, 10) && has(&cache, 19));
    assert_eq!(cache.bytes(), 10 * BLOCK);
    held.into_iter().for_each(|run| cache.unpin(run));
    cache.clear();
    assert_eq!((cache.count(), cache.bytes()), (0, 0));
    assert!(cache.broken.is_empty());
}

#[test]
fn what_a_large_read_brought_is_here_while_somebody_holds_it() {
    let mut cache = Cache::new(100 * BLOCK);
    let data = Bytes::from(vec![1; 10 * BLOCK_BYTES]);
    cache.insert(10, data, (10..20).collect(), Retention::WhilePinned);
    let held: Vec<_> = (0..2).map(|_| cache.pin(Run { start: 10, count: 10 })).collect();
    for (left, runs) in held.into_iter().enumerate().rev() {
        assert!(has(&cache, 10) && has(&cache, 19));
        runs.into_iter().for_each(|run| cache.unpin(run));
        assert_eq!(has(&cache, 10), left > 0);
    }
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn what_is_read_once_takes_little_memory_and_what_is_read_again_may_take_it_all() {
    let mut cache = Cache::new(20_000 * BLOCK);
    for round in 1..=3 {
        for device in 0..15_000 {
            assert_eq!(has(&cache, device), round == 3 || round == 2 && cache.find(device).is_some());
            if cache.find(device).is_none() {
                put(&mut cache, device, 1);
            }
        }
        let blocks = cache.bytes() / BLOCK;
        let expected = if round == 1 { PROBATION_BYTES_MAX / BLOCK } else { 15_000 };
        assert_eq!(blocks, expected, "round {round}");
    }
}

#[test]
fn a_lower_limit_is_reached_in_bounded_steps() {
    let mut cache = Cache::new(10_000 * BLOCK);
    for device in 0..9_000 {
        put(&mut cache, device, 1);
        assert!(has(&cache, device) && has(&cache, device));
    }
    cache.set_bytes_max(100 * BLOCK);
    let mut calls = 1;
    while cache.bytes() > 100 * BLOCK {
        let before = cache.bytes();
        cache.evict();
        assert!(before - cache.bytes() <= LOOKS_MAX * BLOCK);
        calls += 1;
    }
    assert!((9..=40).contains(&calls), "{calls}");
}

#[test]
fn the_pinned_and_the_unwritten_stay() {
    let mut cache = Cache::new(4 * BLOCK);
    put(&mut cache, 1, 2);
    assert_eq!(cache.pin(Run { start: 2, count: 1 }), [Run { start: 1, count: 2 }]);
    cache.insert(50, Bytes::from(vec![1; BLOCK_BYTES]), vec![50], Retention::UntilWritten);
    (100..200).for_each(|device| put(&mut cache, device, 1));
    assert!(has(&cache, 1) && has(&cache, 50));
    cache.unpin(Run { start: 1, count: 2 });
    cache.written(Run { start: 50, count: 1 });
    assert!(!has(&cache, 50));
    (200..400).for_each(|device| put(&mut cache, device, 1));
    assert!(cache.bytes() <= 4 * BLOCK);
}

/// What is counted is what is there.
fn check(cache: &Cache) {
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut counts, mut end) = ([0; 3], 0);
    for (start, Kept { count, segment }) in &cache.segments {
        assert!(*start >= end, "segments overlap");
        end = start + count;
        assert_eq!(*count, segment.count());
        assert_eq!(segment.data.len(), segment.crcs.len() * BLOCK_BYTES);
        let queue = match (segment.retention, segment.is_main) {
            (Retention::Cached, false) => Some((0, &cache.probation)),
            (Retention::Cached, true) => Some((1, &cache.main)),
            (Retention::WhilePinned | Retention::UntilWritten, _) => None,
        };
        counts[queue.map_or(2, |(at, _)| at)] += segment.count();
        assert!(queue.is_none_or(|(_, queue)| queue.places.get(&segment.tick) == Some(start)));
        if let Some(buffer) = segment.part_of {
            *used.entry(buffer).or_default() += segment.count();
        }
    }
    assert_eq!(counts, [cache.probation.block_count, cache.main.block_count, cache.passing_count]);
    let queued = cache.segments.values().filter(|kept| kept.segment.retention == Retention::Cached).count();
    assert_eq!(cache.probation.places.len() + cache.main.places.len(), queued);
    let known: BTreeMap<u64, u64> =
        cache.broken.iter().map(|(id, broken)| (*id, broken.used_count)).collect();
    assert_eq!(used, known);
    let wasted: u64 = cache.broken.values().map(|broken| broken.run.count - broken.used_count).sum();
    assert_eq!(cache.wasted_count, wasted);
}

#[test]
fn accounts_are_right_whatever_is_done() {
    for seed in 0..200 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut cache = Cache::new(rng.random_range(10..300) * BLOCK);
        let mut pins: Vec<Run> = Vec::new();
        for _ in 0..500 {
            let run = Run { start: rng.random_range(0..400), count: rng.random_range(1..40) };
            match rng.random_range(0..8) {
                0..=2 => {
                    let retention = [Retention::Cached, Retention::WhilePinned, Retention::UntilWritten]
                        [rng.random_range(0..3)];
                    let crcs = (run.start..run.end()).map(|block| block as u32).collect();
                    cache.insert(
                        run.start,
                        Bytes::from(vec![0; run.count as usize * BLOCK_BYTES]),
                        crcs,
                        retention,
                    );
                    pins.extend(cache.pin(run));
                }
                3 => cache.remove(Run { count: run.count.min(3), ..run }),
                4 => cache.written(run),
                5 => _ = cache.get(run.start, &[run.start as u32]),
                6 => cache.evict(),
                _ => pins.drain(..pins.len() / 2).for_each(|run| cache.unpin(run)),
            }
            check(&cache);
        }
        pins.into_iter().for_each(|run| cache.unpin(run));
        cache.written(Run { start: 0, count: 1_000 });
        cache.clear();
        check(&cache);
        assert_eq!((cache.bytes(), cache.broken.len()), (0, 0), "seed {seed}");
    }
}
