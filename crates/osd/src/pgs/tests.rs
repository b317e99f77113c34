//! What is said where a PG is not.

use messages::{MPgClean, MPgPull, MPgQuery};
use types::PoolId;

use super::*;

#[test]
fn who_asks_for_what_was_removed_is_told_that_it_is_not_here() {
    let pgid = PgId::new(PoolId(2), 5);
    let (asked, newest) = (Epoch(7), Epoch(9));
    let query = MPgQuery { pgid, epoch: asked, created: Epoch(3), ..MPgQuery::default() };
    match answer_without_pg(query.into(), newest) {
        Some(Message::MPgNotify(told)) => {
            assert_eq!((told.pgid, told.epoch, told.info.created), (pgid, newest, Epoch(3)));
            assert_eq!(told.info.last_update, EVersion::ZERO);
        }
        other => panic!("{other:?}"),
    }
    let pull = MPgPull { pgid, epoch: asked, ..MPgPull::default() };
    match answer_without_pg(pull.into(), newest) {
        Some(Message::MPgPush(told)) => {
            assert_eq!((told.pgid, told.epoch, told.version), (pgid, asked, EVersion::ZERO));
            assert!(told.txn.ops.is_empty());
        }
        other => panic!("{other:?}"),
    }
    assert!(answer_without_pg(MPgClean { pgid, epoch: asked, remove: true }.into(), newest).is_none());
}
