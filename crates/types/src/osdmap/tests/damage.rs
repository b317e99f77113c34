//! Damaged bytes: an error or a value, never a panic.

use proptest::prelude::*;

use super::*;

/// Puts the right checksum behind damaged bytes, so that what lies behind the check is reached.
fn with_crc(mut bytes: Vec<u8>, tail: usize) -> Bytes {
    let at = bytes.len() - tail - 4;
    let crc = crc_around(&bytes[..at], &bytes[at + 4..]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    bytes.into()
}

proptest! {
    #![proptest_config(::damage::cases(2_000))]

    #[test]
    fn a_damaged_map_never_panics(at in 0usize..7_429, value: u8, seed in 0u32..64) {
        let mut bytes = vector("seq/full.124").to_vec();
        bytes[at] = value;
        if let Ok(map) = OsdMap::from_bytes(with_crc(bytes, 0)) {
            prop_assert_eq!(OsdMap::from_bytes(map.to_bytes(F)).unwrap().epoch, map.epoch);
            for pool in map.pools.keys() {
                let _ = map.pg_exists(PgId::new(*pool, seed));
            }
        }
    }

    #[test]
    fn a_damaged_incremental_never_panics(epoch in 104u32..=124, at in 0usize..3_000, value: u8) {
        let mut bytes = vector(&format!("seq/inc.{epoch}")).to_vec();
        let at = at % (bytes.len() - 8);
        bytes[at] = value;
        if let Ok(inc) = Incremental::from_bytes(with_crc(bytes, 4)) {
            let mut map = OsdMap { epoch: Epoch(inc.epoch.0.saturating_sub(1)), ..full(103) };
            if map.apply(&inc).is_ok() {
                prop_assert!(map.is_consistent());
            }
        }
    }

    #[test]
    fn noise_never_panics(bytes: Vec<u8>) {
        let _ = OsdMap::from_bytes(bytes.clone().into());
        let _ = Incremental::from_bytes(bytes.into());
    }
}
