//! Which moves are planned, and in what order.

use super::*;

fn osds<const N: usize>(ids: [i32; N]) -> Vec<OsdId> {
    ids.map(OsdId).to_vec()
}

#[test]
fn copies_are_moved_in_an_order_that_upmaps_can_express() {
    let place = Place { raw: osds([1, 2, 3]), at: osds([2, 4, 3]) };
    let pair = |from, to| (OsdId(from), OsdId(to));
    assert_eq!(place.pairs(), Some(vec![pair(2, 4), pair(1, 2)]));
    assert_eq!(place.with(OsdId(2), OsdId(5)).pairs(), Some(vec![pair(1, 5), pair(2, 4)]));
    assert_eq!(place.with(OsdId(4), OsdId(1)).pairs(), None, "two cannot change places");
    assert_eq!(Place { raw: osds([1, 2]), at: osds([1, 2]) }.pairs(), Some(Vec::new()));
}

/// A seat below one `take`, in this domain.
fn seat(domain: i32) -> Seat {
    Seat { takes: vec![0], outer: Vec::new(), domain: Some(domain) }
}

fn layout<const N: usize>(
    domains: Domains,
    places: impl Iterator<Item = [i32; N]>,
    shares: BTreeMap<OsdId, (f64, f64)>,
) -> Layout {
    let place = |at| Place { raw: osds(at), at: osds(at) };
    let places: BTreeMap<PgId, Place> =
        (0..).zip(places).map(|(seed, at)| (PgId::new(PoolId(1), seed), place(at))).collect();
    let mut pgs_on: BTreeMap<OsdId, BTreeSet<PgId>> = BTreeMap::new();
    for (pg, place) in &places {
        place.at.iter().for_each(|osd| {
            pgs_on.entry(*osd).or_default().insert(*pg);
        });
    }
    let rule = Rule::of(&CrushBlob::default(), &PgPool::default());
    Layout { rule, domains, places, pgs_on, shares }
}

/// Two hosts with two OSDs each; eight PGs are on the first OSD of each.
fn uneven() -> Layout {
    let domains = Domains { seats: (0..4).map(|osd| (OsdId(osd), seat(-2 - osd / 2))).collect() };
    let share = |osd, has, share| (OsdId(osd), (has, share));
    let shares = [share(0, 8.0, 5.0), share(1, 0.0, 3.0), share(2, 100.0, 100.0), share(3, 0.0, 0.0)];
    layout(domains, std::iter::repeat_n([0, 2], 8), shares.into())
}

#[test]
fn a_look_considers_copies_of_osds_with_too_many_and_a_limited_number() {
    // Eight copies that may go back, and then one that may go on, to the OSD beside.
    let (mut layout, mut moves_left) = (uneven(), 9);
    let moved = layout.improve(1.0, &mut moves_left).unwrap();
    assert_eq!((layout.places[&moved].at[0], moves_left), (OsdId(1), 0));
    assert_eq!(layout.pgs_on[&OsdId(1)], BTreeSet::from([moved]));
    assert!(!layout.pgs_on[&OsdId(0)].contains(&moved));
    assert_eq!(uneven().improve(1.0, &mut 8), None);
}

/// Racks of two, four and four OSDs.
fn three_racks() -> Domains {
    let rack = |osd: i32| if osd < 2 { -2 } else { -3 - (osd - 2) / 4 };
    Domains { seats: (0..10).map(|osd| (OsdId(osd), seat(rack(osd)))).collect() }
}

#[test]
fn a_rack_that_has_too_many_and_can_give_none_keeps_no_others_from_their_turn() {
    // Each PG has a copy in each rack; the first OSDs of the larger racks have 32, those beside them 16.
    let beside = |pg: i32| if pg < 16 { 0 } else { pg % 4 };
    let places = (0..80).map(|pg| [pg % 2, 2 + beside(pg), 6 + beside(pg)]);
    let has = |osd: i32| {
        if osd < 2 {
            40.0
        } else if osd % 4 == 2 {
            32.0
        } else {
            16.0
        }
    };
    let shares = (0..10).map(|osd| (OsdId(osd), (has(osd), 24.0))).collect();
    let mut layout = layout(three_racks(), places, shares);
    // The OSDs of the small rack first: forty copies each that may go back, or into either of two racks.
    let mut moves_left = 2 * (40 + 2 * 40) + 100;
    let moved = layout.improve(5.0, &mut moves_left).unwrap();
    let Place { raw, at } = &layout.places[&moved];
    assert!(raw != at && raw[0] == at[0], "{raw:?} {at:?}");
}

#[test]
fn a_domain_has_no_larger_share_than_one_copy_of_each_pg() {
    let domains = three_racks();
    let weights: BTreeMap<OsdId, f64> = (0..10).map(|osd| (OsdId(osd), 0.1)).collect();
    let shares = |copies| domains.shares(&weights, 80.0, copies).into_values().collect::<Vec<_>>();
    let all_near = |got: &[f64], want: f64| got.iter().all(|got| (got - want).abs() < 1e-6);
    let three = shares(240.0);
    assert!(all_near(&three[..2], 40.0) && all_near(&three[2..], 20.0), "{three:?}");
    assert!(all_near(&shares(160.0), 16.0), "no rack is full");
    let four = shares(320.0);
    assert!(all_near(&four[..2], 40.0) && all_near(&four[2..], 20.0), "there is no room for more: {four:?}");
}

#[test]
fn osds_that_no_take_has_in_common_have_their_shares_apart() {
    let mut domains = three_racks();
    let weights: BTreeMap<OsdId, f64> = (0..10).map(|osd| (OsdId(osd), 0.1)).collect();
    let groups = |domains: &Domains| {
        let mut groups: Vec<Vec<i32>> =
            domains.apart(&weights).iter().map(|group| group.keys().map(|osd| osd.0).collect()).collect();
        groups.sort();
        groups
    };
    assert_eq!(groups(&domains), [Vec::from_iter(0..10)]);
    for (osd, seat) in &mut domains.seats {
        seat.takes = if osd.0 % 2 == 0 { vec![0] } else { vec![1] };
    }
    assert_eq!(groups(&domains), [vec![0, 2, 4, 6, 8], vec![1, 3, 5, 7, 9]]);
    // Any copy may go to the last OSD.
    domains.seats.get_mut(&OsdId(9)).unwrap().takes = vec![0, 1];
    assert_eq!(groups(&domains), [Vec::from_iter(0..10)]);
}
