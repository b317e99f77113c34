//! Whether the rules of a CRUSH map place copies in a useful time.
//!
//! Authority: `CrushTester::test_with_fork` as `osd setcrushmap` calls it (16.2), which stops after five seconds. Here
//! work is counted.

use crush::{COMPAT_SET, CrushMap, WEIGHT_ONE};
use types::OsdMap;

/// Inputs that each rule is tried with.
const INPUTS: u32 = 51;

/// Copies that a rule is tried with where no pool has more, if it is for so many.
const COPIES: u8 = 10;

/// The most work for one input, which is some tens of milliseconds. The monitor and each OSD place every PG anew with
/// each map, but pools have fewer copies than are tried: one that is not found takes a seventh of the work of seven.
/// With 50 tries that is enough for three OSDs of a class among 10,000 hosts, with 1,000 among 500.
const INPUT_WORK_MAX: u64 = 1 << 22;

/// The most work for all rules together, which is some seconds: the monitor does nothing else meanwhile.
const WORK_MAX: u64 = 1 << 28;

/// The first rule by which PGs, of the pools that use it or of pools to come, would take too long to place.
pub(super) fn endless_rule(crush: &CrushMap, map: &OsdMap) -> Option<u8> {
    let weights = vec![WEIGHT_ONE; usize::try_from(crush.max_devices).unwrap_or(0)];
    let mut left = WORK_MAX;
    (0..=u8::MAX).find(|id| {
        let Some(rule) = crush.rule(*id) else { return false };
        // More copies take all the work that fewer take.
        let sizes = map.pools.values().filter(|pool| pool.crush_rule == *id).map(|pool| pool.size);
        let size = usize::from(sizes.fold(rule.max_size.min(COPIES), u8::max));
        (0..INPUTS).any(|x| {
            let limit = left.min(INPUT_WORK_MAX);
            let work = crush.rule_work(*id, x, size, &weights, crush.choose_args_of(COMPAT_SET), limit);
            left -= work.unwrap_or(limit);
            work.is_none()
        })
    })
}
