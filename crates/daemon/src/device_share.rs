//! How the stores of an OSD divide a device: each has a share of it, which is one piece of space to the store.
//!
//! A share begins with a region, all of equal length, one after another; they were made with the stores. What is behind
//! the last of them, because the device has grown, is divided in stripes that go round the shares. So where a share's
//! byte is follows from what never changes: neither the device's size nor how often it grew matters, and no two stores
//! need agree on when it did. docs/formats/store.md draws it.

use std::ops::Range;

/// Regions begin at multiples of this, and end at one if there are several.
const REGION_ALIGN: u64 = 1 << 20;
/// Bytes of a stripe: small enough that a device need not grow by much, large enough that few requests cross its end.
const STRIPE_BYTES: u64 = 16 << 20;

/// The region that each of `count` stores gets of a new device of so many bytes.
pub(crate) fn region_bytes(bytes: u64, count: u16) -> u64 {
    match count {
        1 => bytes,
        count => bytes / u64::from(count) / REGION_ALIGN * REGION_ALIGN,
    }
}

/// One store's part of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceShare {
    index: u64,
    count: u64,
    region_bytes: u64,
    /// With all stripes that the device has room for.
    bytes: u64,
}

impl DeviceShare {
    /// All of a device: for a single store, or for a caller that looks for one.
    pub(crate) fn whole(bytes: u64) -> DeviceShare {
        DeviceShare { index: 0, count: 1, region_bytes: bytes, bytes }
    }

    /// The share of store `index` of `count` on a device of so many bytes.
    pub(crate) fn new(index: u16, count: u16, region_bytes: u64, device_bytes: u64) -> DeviceShare {
        let (index, count) = (u64::from(index), u64::from(count));
        let grown_by = device_bytes.saturating_sub(region_bytes.saturating_mul(count));
        let bytes = region_bytes + grown_by / (count * STRIPE_BYTES) * STRIPE_BYTES;
        DeviceShare { index, count, region_bytes, bytes }
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where on the device a range of the share is: more than one piece if it crosses the end of the region or of a
    /// stripe.
    pub(crate) fn pieces(self, offset: u64, len: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let end = offset + len;
        let mut at = offset;
        std::iter::from_fn(move || {
            let (start, left) = self.place(at);
            let len = left.min(end - at);
            at += len;
            (len > 0).then(|| start..start + len)
        })
    }

    /// Where on the device a byte of the share is, and how many follow each other from there on.
    fn place(&self, offset: u64) -> (u64, u64) {
        if self.count == 1 {
            return (offset, u64::MAX);
        }
        let Some(behind) = offset.checked_sub(self.region_bytes) else {
            return (self.index * self.region_bytes + offset, self.region_bytes - offset);
        };
        let (round, within) = (behind / STRIPE_BYTES, behind % STRIPE_BYTES);
        let stripe = round * self.count + self.index;
        (self.count * self.region_bytes + stripe * STRIPE_BYTES + within, STRIPE_BYTES - within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pieces(share: DeviceShare, offset: u64, len: u64) -> Vec<Range<u64>> {
        share.pieces(offset, len).collect()
    }

    #[test]
    fn regions_are_equal_and_aligned() {
        assert_eq!(region_bytes(100 * MIB + 5, 1), 100 * MIB + 5);
        assert_eq!(region_bytes(101 * MIB, 2), 50 * MIB);
        assert_eq!(region_bytes(101 * MIB, 4), 25 * MIB);
    }

    #[test]
    fn a_single_store_has_all() {
        let share = DeviceShare::new(0, 1, 10 * MIB, 10 * MIB);
        assert_eq!((share, share.bytes()), (DeviceShare::whole(10 * MIB), 10 * MIB));
        assert_eq!(pieces(share, 5, 7 * MIB), [Range { start: 5, end: 7 * MIB + 5 }]);
    }

    #[test]
    fn what_a_device_grew_by_goes_round_in_whole_stripes() {
        // Nothing of less than a stripe for each.
        for (device, bytes) in [(100, 50), (101, 50), (131, 50), (132, 66), (163, 66), (164, 82)] {
            for index in 0..2 {
                assert_eq!(
                    DeviceShare::new(index, 2, 50 * MIB, device * MIB).bytes(),
                    bytes * MIB,
                    "{device}"
                );
            }
        }
        let share = DeviceShare::new(1, 2, 50 * MIB, 164 * MIB);
        let expected = [99 * MIB..100 * MIB, 116 * MIB..132 * MIB, 148 * MIB..149 * MIB];
        assert_eq!(pieces(share, 49 * MIB, 18 * MIB), expected);
        assert_eq!(pieces(share, 50 * MIB, 4096), [Range { start: 116 * MIB, end: 116 * MIB + 4096 }]);
        assert_eq!(pieces(share, 50 * MIB, 0), []);
    }

    #[test]
    fn shares_do_not_overlap_and_stay_where_they_are_as_the_device_grows() {
        for count in [1, 2, 4, 32] {
            let region = 3 * MIB;
            let device = region * u64::from(count) + 200 * STRIPE_BYTES + 12_345;
            let mut all: Vec<Range<u64>> = Vec::new();
            for index in 0..count {
                let share = DeviceShare::new(index, count, if count == 1 { device } else { region }, device);
                let own = pieces(share, 0, share.bytes());
                let larger = DeviceShare::new(index, count, share.region_bytes, device + 1000 * STRIPE_BYTES);
                assert_eq!(pieces(larger, 0, share.bytes()), own);
                all.extend(own);
            }
            all.sort_unstable_by_key(|piece| piece.start);
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start), "{count}");
            assert!(all[0].start == 0 && all[all.len() - 1].end <= device, "{count}");
        }
    }
}
