//! An object in memory, for tests of methods.

use std::{cell::Cell, collections::BTreeMap};

use bytes::Bytes;
use types::{EntityAddr, EntityNum, Errno, SnapId};

use crate::{CallContext, ObjectStat, ObjectView, Stop, registry};

/// Smaller than an OSD's, for the tests' sake.
const OBJECT_BYTES_MAX: u64 = 8 << 20;

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
    /// How many bytes of data, xattrs and omap were read.
    pub(crate) read_bytes: u64,
    /// How many changes were made.
    pub(crate) changes: usize,
    /// How often the watchers were listed.
    pub(crate) watcher_lists: Cell<usize>,
    pub(crate) watchers: Vec<(EntityNum, EntityAddr)>,
    pub(crate) header: Bytes,
    /// References to any chunk.
    pub(crate) chunk_references: i32,
    /// The result of the last method that set one besides its output.
    pub(crate) result: i32,
}

/// Where a range ends; EFBIG for one that no object has.
fn end_of(offset: u64, len: u64) -> Result<usize, Stop> {
    let end = offset.checked_add(len).filter(|end| *end <= OBJECT_BYTES_MAX);
    Ok(end.ok_or(Errno::EFBIG)? as usize)
}

impl TestView {
    fn has_read<'a>(&mut self, parts: impl IntoIterator<Item = &'a Bytes>) {
        self.read_bytes += parts.into_iter().map(|part| part.len() as u64).sum::<u64>();
    }

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
        let size = self.data.len() as u64;
        let (from, to) = (offset.min(size), offset.saturating_add(len).min(size));
        self.read_bytes += to - from;
        Ok(Bytes::copy_from_slice(&self.data[from as usize..to as usize]))
    }
    fn xattr(&mut self, name: &[u8]) -> Result<Option<Bytes>, Stop> {
        let value = self.xattrs.get(name).cloned();
        self.has_read(&value);
        Ok(value)
    }
    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop> {
        let all = self.xattrs.clone();
        self.has_read(all.iter().flat_map(|(name, value)| [name, value]));
        Ok(all)
    }
    fn omap_header(&mut self) -> Result<Bytes, Stop> {
        let header = self.header.clone();
        self.has_read([&header]);
        Ok(header)
    }
    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        self.omap_reads += 1;
        if !self.has_omap(key) {
            return Err(Stop::Missing);
        }
        let value = self.omap.get(key).cloned();
        self.has_read(&value);
        Ok(value)
    }
    fn chunk_references(&mut self, _oid: &[u8]) -> Result<i32, Stop> {
        Ok(self.chunk_references)
    }
    fn set_result(&mut self, result: i32) {
        self.result = result;
    }
    fn watchers(&self) -> Vec<(EntityNum, EntityAddr)> {
        self.watcher_lists.set(self.watcher_lists.get() + 1);
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
        let page: Vec<_> = all.into_iter().take(count_max).collect();
        self.has_read(page.iter().flat_map(|(key, value)| [key, value]));
        Ok((page, has_more))
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
        self.changes += 1;
        Ok(())
    }
    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        let end = end_of(offset, data.len() as u64)?;
        self.exists = true;
        self.changes += 1;
        self.data.resize(self.data.len().max(end), 0);
        self.data[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }
    fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        end_of(0, data.len() as u64)?;
        self.exists = true;
        self.changes += 1;
        self.data = data.to_vec();
        Ok(())
    }
    fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        let end = end_of(size, 0)?;
        self.exists = true;
        self.changes += 1;
        self.data.resize(end, 0);
        Ok(())
    }
    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        let end = end_of(offset, len)?.min(self.data.len());
        self.changes += 1;
        self.data[(offset as usize).min(end)..end].fill(0);
        Ok(())
    }
    fn remove(&mut self) -> Result<(), Stop> {
        *self = TestView {
            context: self.context.clone(),
            read_bytes: self.read_bytes,
            changes: self.changes + 1,
            ..TestView::default()
        };
        Ok(())
    }
    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<(), Stop> {
        self.exists = true;
        self.changes += 1;
        self.xattrs.insert(Bytes::copy_from_slice(name), value);
        Ok(())
    }
    fn remove_xattr(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.changes += 1;
        self.xattrs.remove(name);
        Ok(())
    }
    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<(), Stop> {
        self.exists = true;
        self.changes += 1;
        self.omap.extend(entries);
        Ok(())
    }
    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop> {
        if !self.exists {
            return Err(Errno::ENOENT.into());
        }
        self.changes += 1;
        keys.iter().for_each(|k| {
            self.omap.remove(k);
        });
        Ok(())
    }
    fn omap_remove_range(&mut self, first: &Bytes, last: &Bytes) -> Result<(), Stop> {
        self.changes += 1;
        self.omap.retain(|key, _| key < first || key >= last);
        Ok(())
    }
    fn omap_clear(&mut self) -> Result<(), Stop> {
        self.changes += 1;
        self.omap.clear();
        self.header = Bytes::new();
        Ok(())
    }
    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop> {
        self.changes += 1;
        self.header = header;
        Ok(())
    }
}
