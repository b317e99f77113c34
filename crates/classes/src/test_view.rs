//! An object in memory, for tests of methods.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::{EntityAddr, EntityNum, Errno, SnapId};

use crate::{CallContext, ObjectStat, ObjectView, Stop, registry};

#[derive(Clone, Debug, Default)]
pub(crate) struct TestView {
    pub(crate) context: CallContext,
    pub(crate) exists: bool,
    /// Of an object that exists, or has clones.
    pub(crate) snapset_seq: Option<SnapId>,
    pub(crate) data: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Bytes, Bytes>,
    pub(crate) omap: BTreeMap<Bytes, Bytes>,
    /// The omap has to be loaded first: what a method has brought is there when it runs again.
    pub(crate) is_omap_absent: bool,
    /// Prefixes whose entries methods had brought.
    pub(crate) brought: Vec<Bytes>,
    /// How often omap entries were read.
    pub(crate) omap_reads: usize,
    pub(crate) watchers: Vec<(EntityNum, EntityAddr)>,
    pub(crate) header: Bytes,
    /// References to any chunk.
    pub(crate) chunk_references: i32,
    /// The result of the last method that set one besides its output.
    pub(crate) result: i32,
}

impl TestView {
    /// False if the entries with a prefix have to be loaded first.
    fn has_omap(&self, prefix: &[u8]) -> bool {
        !self.is_omap_absent || self.brought.iter().any(|brought| prefix.starts_with(brought))
    }

    /// Calls a method by name; on an error nothing is changed, as in an OSD.
    pub(crate) fn call(&mut self, class: &str, name: &str, input: impl Into<Bytes>) -> Result<Bytes, Errno> {
        let method = registry::find(class.as_bytes(), name.as_bytes()).expect("the method exists");
        let before = self.clone();
        match (method.run)(self, &input.into()) {
            Ok(out) => {
                let changed =
                    (self.exists, &self.data, &self.omap) != (before.exists, &before.data, &before.omap);
                assert!(method.is_write() || !changed, "{name} reads only");
                Ok(out)
            }
            Err(Stop::Refused(errno) | Stop::Explained(errno, _)) => {
                *self = before;
                Err(errno)
            }
            Err(Stop::Missing) => unreachable!("all is in memory"),
        }
    }
}

impl ObjectView for TestView {
    fn context(&self) -> &CallContext {
        &self.context
    }
    fn snapset_seq(&self) -> Option<SnapId> {
        self.snapset_seq
    }
    fn stat(&mut self) -> Result<Option<ObjectStat>, Stop> {
        Ok(self.exists.then_some(ObjectStat { size: self.data.len() as u64, mtime: self.context.now }))
    }
    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop> {
        let end = self.data.len().min((offset + len) as usize);
        Ok(Bytes::copy_from_slice(&self.data[(offset as usize).min(end)..end]))
    }
    fn xattr(&mut self, name: &[u8]) -> Result<Option<Bytes>, Stop> {
        Ok(self.xattrs.get(name).cloned())
    }
    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop> {
        Ok(self.xattrs.clone())
    }
    fn omap_header(&mut self) -> Result<Bytes, Stop> {
        Ok(self.header.clone())
    }
    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        self.omap_reads += 1;
        if self.has_omap(key) { Ok(self.omap.get(key).cloned()) } else { Err(Stop::Missing) }
    }
    fn chunk_references(&mut self, _oid: &[u8]) -> Result<i32, Stop> {
        Ok(self.chunk_references)
    }
    fn set_result(&mut self, result: i32) {
        self.result = result;
    }
    fn watchers(&self) -> Vec<(EntityNum, EntityAddr)> {
        self.watchers.clone()
    }
    fn omap_list(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        count_max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        self.omap_reads += 1;
        if !self.has_omap(prefix) {
            return Err(Stop::Missing);
        }
        let all: Vec<_> = self
            .omap
            .iter()
            .filter(|(k, _)| k.as_ref() > after && k.starts_with(prefix))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let has_more = all.len() > count_max;
        Ok((all.into_iter().take(count_max).collect(), has_more))
    }
    fn omap_bring(&mut self, _after: &[u8], prefix: &[u8], _count_max: u64) -> Result<(), Stop> {
        let is_here = self.has_omap(prefix);
        self.brought.push(Bytes::copy_from_slice(prefix));
        if is_here { Ok(()) } else { Err(Stop::Missing) }
    }
    fn create(&mut self, exclusive: bool) -> Result<(), Stop> {
        if self.exists && exclusive {
            return Err(Errno::EEXIST.into());
        }
        self.exists = true;
        Ok(())
    }
    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        self.exists = true;
        let end = offset as usize + data.len();
        self.data.resize(self.data.len().max(end), 0);
        self.data[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }
    fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        self.exists = true;
        self.data = data.to_vec();
        Ok(())
    }
    fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        self.data.resize(size as usize, 0);
        Ok(())
    }
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        let end = self.data.len().min((offset + len) as usize);
        self.data[offset as usize..end].fill(0);
        Ok(())
    }
    fn remove(&mut self) -> Result<(), Stop> {
        *self = TestView { context: self.context.clone(), ..TestView::default() };
        Ok(())
    }
    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<(), Stop> {
        self.exists = true;
        self.xattrs.insert(Bytes::copy_from_slice(name), value);
        Ok(())
    }
    fn remove_xattr(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.xattrs.remove(name);
        Ok(())
    }
    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<(), Stop> {
        self.exists = true;
        self.omap.extend(entries);
        Ok(())
    }
    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop> {
        if !self.exists {
            return Err(Errno::ENOENT.into());
        }
        keys.iter().for_each(|k| {
            self.omap.remove(k);
        });
        Ok(())
    }
    fn omap_remove_range(&mut self, first: &Bytes, last: &Bytes) -> Result<(), Stop> {
        self.omap.retain(|key, _| key < first || key >= last);
        Ok(())
    }
    fn omap_clear(&mut self) -> Result<(), Stop> {
        self.omap.clear();
        self.header = Bytes::new();
        Ok(())
    }
    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop> {
        self.header = header;
        Ok(())
    }
}
