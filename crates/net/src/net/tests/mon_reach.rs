//! Monitors that are not reached.

use super::{
    pair::{End, config},
    *,
};
use crate::NoAuthority;

fn net(host: &str) -> Net<u32> {
    let mut net = Net::new(config(EntityType::OSD), None, [1; 32]);
    net.keep_mon_session(vec![EntityAddrVec(vec![EntityAddr::parse(host).unwrap()])]);
    net
}

/// The second of the last warning.
fn warned(net: &Net<u32>) -> Option<u64> {
    let at = net.mon.as_ref().unwrap().warning_at_ns?;
    Some((at - UNREACHED_LOGGED.as_nanos() as u64) / 1_000_000_000)
}

#[test]
fn one_that_is_not_there_is_warned_of_at_once_and_then_once_a_minute() {
    let (mut net, mut end, mut out) = (net("v2:127.0.0.1:3300/0"), End::default(), Vec::new());
    let begin = end.now.0 / 1_000_000_000;
    assert_eq!(warned(&net), None);
    let mut warnings = Vec::new();
    for second in 0..=120 {
        net.tick(&mut end, &mut out);
        assert_eq!(end.dialed, second + 1);
        net.on_event(WireEvent::Failed(end.dialed, true), &mut end, &mut NoAuthority, &mut out);
        warnings.extend(warned(&net).map(|at| at - begin));
        end.now = end.now + Duration::from_secs(1);
    }
    warnings.dedup();
    assert_eq!(warnings, [0, 60, 120]);
    net.on_mon_reached();
    assert_eq!(warned(&net), None, "the next failure is news");
}

#[test]
fn one_without_an_address_for_msgr2_is_warned_of() {
    let (mut net, mut end) = (net("v1:127.0.0.1:6789/0"), End::default());
    net.tick(&mut end, &mut Vec::new());
    assert_eq!(end.dialed, 0);
    assert!(warned(&net).is_some());
}
