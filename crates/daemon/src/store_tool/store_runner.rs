//! A store with its device on a reactor, driven as an OSD drives it.

use anyhow::{Context, Result, ensure};
use reactor::Reactor;
use store::{Completion, Config, ObjectStore, Store};
use types::{CollId, Token, Transaction, TxnOp};

use crate::{
    clock,
    device::{Answer, Device},
};

/// A store with its device on a reactor.
pub(super) struct StoreRunner {
    pub(super) reactor: Reactor,
    pub(super) device: Device,
    pub(super) store: Store,
    /// Commands that the device has not answered.
    in_flight: usize,
}

impl StoreRunner {
    /// Mounts it.
    pub(super) fn mount(mut reactor: Reactor, mut device: Device, config: Config) -> Result<StoreRunner> {
        let store = device.mount(&mut reactor, config, &|| Ok(()))?;
        Ok(StoreRunner { reactor, device, store, in_flight: 0 })
    }

    pub(super) fn submit(&mut self, token: Token, coll: CollId, ops: Vec<TxnOp>) {
        self.store.submit(token, Transaction { ops, ..Transaction::new(coll) });
    }

    /// A turn of the loop. Waits for the device if nothing is complete, unless the store has nothing to do.
    pub(super) fn turn(&mut self) -> Result<Vec<Completion>> {
        loop {
            self.store.set_time(clock::now());
            self.store.kick();
            self.tell_device();
            let completions = self.store.take_completions();
            if !completions.is_empty() || self.store.is_idle() {
                return Ok(completions);
            }
            // What waits then waits for room that nothing gives.
            ensure!(self.in_flight > 0, "the store has no room for what it is to take");
            for (token, result) in self.wait()? {
                self.store.device_done(token, result);
            }
            self.store.fault().map_or(Ok(()), |fault| Err(fault).context("the store failed"))?;
        }
    }

    /// Waits until the store has nothing left to do.
    pub(super) fn settle(&mut self) -> Result<()> {
        while !self.turn()?.is_empty() || !self.store.is_idle() {}
        Ok(())
    }

    /// Stops the store in order.
    pub(super) fn unmount(&mut self) -> Result<()> {
        self.store.unmount();
        while !self.store.is_unmounted() {
            self.turn()?;
        }
        Ok(())
    }

    /// The reactor and the device, without the store. What the device was told happens still, and nobody hears of it:
    /// the next mount would take it for its own.
    pub(super) fn into_parts(mut self) -> Result<(Reactor, Device)> {
        while self.in_flight > 0 {
            self.wait()?;
        }
        Ok((self.reactor, self.device))
    }

    fn tell_device(&mut self) {
        let commands = self.store.take_commands();
        self.in_flight += commands.len();
        self.device.submit(commands, &mut self.reactor);
    }

    fn wait(&mut self) -> Result<Vec<Answer>> {
        let answers = self.device.wait(&mut self.reactor)?;
        self.in_flight -= answers.len();
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use store::StoreIdentity;
    use types::{HObject, Mutation, PgId, PoolId, Uuid};

    use super::*;
    use crate::device_paths::DevicePaths;

    #[test]
    fn what_has_no_room_is_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("loligo-store-runner-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let paths = DevicePaths { main: folder.join("block"), journal: None, index: None };
        let device = Device::create(&mut reactor, &paths, 64 << 20, &mut |_| Ok(())).unwrap();
        let (store_uuid, fsid) = (Uuid([1; 16]), Uuid::NIL);
        let identity = StoreIdentity { store_uuid, fsid, osd: 0, shard: 0, shards: 1 };
        device.format(identity, &mut reactor).unwrap();
        let config = device.store_config();
        let mut runner = StoreRunner::mount(reactor, device, config).unwrap();
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        runner.submit(Token(0), coll, vec![TxnOp::CreateCollection]);
        let refused = (0..200).find_map(|number| {
            let object = HObject { oid: Bytes::from(format!("{number}")), ..HObject::default() };
            let write = Mutation::Write { offset: 0, data: Bytes::from(vec![1; 1 << 20]).into() };
            runner.submit(Token(1), coll, vec![TxnOp::Object(object, write)]);
            runner.settle().err()
        });
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refused.unwrap().to_string().contains("no room"));
    }
}
