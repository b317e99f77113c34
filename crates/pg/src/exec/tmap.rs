//! Trivial maps: a sorted map kept as an object's data, from before omap. `rbd_directory` lists images of
//! format 1 in one.
//!
//! Layout: a header and, behind a u32 count, the keys with their values in order; all with u32 lengths.
//! Authority: `PrimaryLogPG::do_tmapup`, `include/rados.h` (`CEPH_OSD_TMAP_*`).

use std::collections::BTreeMap;

use bytes::Bytes;
use classes::{ObjectView, Stop};
use codec::{Decode, Encode, Features, Reader};
use messages::OsdOp;
use types::Errno;

use super::{Output, Run};

const HEADER: u8 = b'h';
const SET: u8 = b's';
const CREATE: u8 = b'c';
const REMOVE: u8 = b'r';
const REMOVE_IF_THERE: u8 = b'R';

type Map = (Bytes, BTreeMap<Bytes, Bytes>);

fn decode<T: Decode>(input: &mut Reader) -> Result<T, Stop> {
    T::decode(input).map_err(|_| Errno::EINVAL.into())
}

impl Run<'_, '_> {
    /// What is there; nothing of an object that is not, as Ceph reads inside without looking at the result.
    pub(super) fn tmap_get(&mut self) -> Result<Output, Stop> {
        if !self.view.exists() {
            return Ok(Output::default());
        }
        let size = self.view.size();
        Ok(self.view.read(0, size)?.into())
    }

    /// The map is kept as it came if its keys are in order, because readers search for keys in it.
    pub(super) fn tmap_put(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (header, entries): (Bytes, Vec<(Bytes, Bytes)>) =
            Decode::from_bytes(step.data.clone()).map_err(|_| Errno::EINVAL)?;
        let data = match entries.is_sorted_by_key(|(key, _)| key.clone()) {
            true => step.data.clone(),
            false => (header, entries.into_iter().collect::<BTreeMap<_, _>>()).to_bytes(Features::default()),
        };
        self.view.write_full(data)?;
        Ok(Output::default())
    }

    /// Applies a list of changes: one byte for what, the key, the value.
    pub(super) fn tmap_update(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.data.is_empty() {
            return Ok(Output::default());
        }
        let size = self.view.size();
        let stored = self.view.read(0, size)?;
        let (mut header, mut map) = match stored.is_empty() {
            true => Map::default(),
            false => decode(&mut Reader::new(stored))?,
        };
        let mut input = Reader::new(step.data.clone());
        while input.remaining() > 0 {
            let change: u8 = decode(&mut input)?;
            if change == HEADER {
                header = decode(&mut input)?;
                continue;
            }
            let key: Bytes = decode(&mut input)?;
            match change {
                CREATE if map.contains_key(&key) => return Err(Errno::EEXIST.into()),
                SET | CREATE => {
                    map.insert(key, decode(&mut input)?);
                }
                REMOVE if !map.contains_key(&key) => return Err(Errno::ENOENT.into()),
                REMOVE | REMOVE_IF_THERE => {
                    map.remove(&key);
                }
                _ => return Err(Errno::EINVAL.into()),
            }
        }
        self.view.write_full((header, map).to_bytes(Features::default()))?;
        Ok(Output::default())
    }
}
