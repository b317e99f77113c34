//! The index for a checkpoint: pages as they were when it began.

use std::ops::Bound;

use bytes::Bytes;
use types::{CollId, HObject};

use super::{
    Index, Key, KeyRef,
    need::Need,
    page::{Entry, PageImage, decode_key, encode_entry, page_front},
};

/// Bytes rendered in one step, in pages, unless one entry has more.
const RENDER_PAGES_MAX: usize = 4;

/// Bytes of the parts, at most, that a page is split into: whole blocks, with room to grow.
pub(super) fn part_bytes(page_bytes_max: usize) -> usize {
    page_bytes_max / 4 * 3 - 64
}

impl Index {
    /// A checkpoint begins: what is dirty is to be rendered as it is here and now.
    pub(crate) fn freeze(&mut self) {
        assert!(self.frozen.is_empty() && self.rendered.is_empty(), "one checkpoint is made at a time");
        self.frozen = std::mem::take(&mut self.dirty);
        self.frozen_count = self.frozen.len();
        self.frozen_bytes = std::mem::take(&mut self.changed_bytes);
        self.frozen_need = std::mem::take(&mut self.need);
        self.generation += 1;
    }

    /// The checkpoint is durable: what it froze is clean, but for what has changed since.
    pub(crate) fn checkpointed(&mut self) {
        self.frozen_count = 0;
        self.frozen_bytes = 0;
        self.frozen_need = Need::default();
    }

    /// The checkpoint comes to nothing: what is not placed is dirty again.
    pub(crate) fn thaw(&mut self) {
        let count = self.frozen_count as u64;
        let left = ((self.frozen.len() + self.rendered.len()) as u64).min(count);
        self.changed_bytes += std::mem::take(&mut self.frozen_bytes) / count.max(1) * left;
        self.dirty.append(&mut self.frozen);
        self.dirty.extend(self.rendered.drain(..).map(|image| image.first));
        self.need_again(left);
        self.frozen_count = 0;
    }

    /// The next page of the checkpoint, in no order. The caller gives it a place, or it back. With `packs`, pages
    /// that are rendered only now take no more memory than their bytes.
    pub(crate) fn next_image(&mut self, packs: bool) -> Option<PageImage> {
        if self.rendered.is_empty()
            && let Some(first) = self.frozen.pop_first()
        {
            self.render(&first, &first);
            if packs {
                self.pack_rendered();
            }
        }
        self.rendered.pop_front()
    }

    /// A page found no place.
    pub(crate) fn put_back(&mut self, image: PageImage) {
        self.rendered.push_front(image);
    }

    /// True if the page may change no more without being rendered again.
    pub(crate) fn is_dirty(&self, first: &Key) -> bool {
        self.dirty.contains(first)
    }

    /// An entry is about to change.
    pub(crate) fn touch<'a>(&mut self, key: impl Into<KeyRef<'a>>) {
        let key = key.into();
        let page = self.directory.page_at(key);
        debug_assert!(page.is_loaded, "what is changed is in memory");
        if page.touched.get() == self.generation {
            return;
        }
        let mut first = self.directory.page_of(key);
        if self.frozen.remove(&first) {
            self.render(&first, &key.to_key());
            // It may have been split.
            first = self.directory.page_of(key);
        }
        self.directory.page_at(key).touched.set(self.generation);
        if self.dirty.insert(first.clone()) {
            self.need_page(&first);
        }
    }

    /// All entries from `from` to `to`, that one included, are about to change.
    pub(crate) fn touch_range(&mut self, from: &Key, to: &Key) {
        self.touch(from);
        let mut at = self.directory.page_of(from);
        while let Some(next) = self.directory.page_after(&at).filter(|next| next <= to) {
            self.touch(&next);
            at = next;
        }
    }

    /// Renders a page, in parts if it has grown too large. Of one that is very large only the part with `key` is
    /// rendered: the rest becomes pages of its own, as frozen as it was.
    fn render(&mut self, first: &Key, key: &Key) {
        let next = self.directory.page_after(first);
        let mut first = first.clone();
        let (mut encoded, mut end) = self.encode(&first, next.as_ref());
        if end.is_some() || encoded.bytes.len() > self.page_bytes_max {
            // The parts share no bytes.
            self.unpack_page(&first);
            (encoded, end) = self.encode(&first, next.as_ref());
        }
        if end.as_ref().is_some_and(|end| *end <= *key) {
            self.directory.split(key);
            self.frozen.insert(std::mem::replace(&mut first, key.clone()));
            (encoded, end) = self.encode(&first, next.as_ref());
        }
        if let Some(end) = end {
            self.directory.split(&end);
            self.frozen.insert(end);
        }
        for image in encoded.into_parts(&first, self.page_bytes_max) {
            if image.first != first {
                self.directory.split(&image.first);
            }
            self.rendered.push_back(image);
        }
    }

    /// The entries of `[from, to)`, which is in one page, and the key of the first one left out if there are too many.
    fn encode(&self, from: &Key, to: Option<&Key>) -> (Encoded, Option<Key>) {
        let mut out = Encoded::default();
        let mut end = None;
        let packed = self.directory.page_at(from).packed.as_deref();
        let mut at = packed.map_or(0, |packed| packed.lower_bound(from));
        self.visit(from, to, |coll, object, entry| {
            let is_full = out.bytes.len() > RENDER_PAGES_MAX * self.page_bytes_max;
            if is_full || packed.is_some() {
                let omap = match entry {
                    Entry::Onode(_) => None,
                    Entry::Omap(key, _) => Some(key.clone()),
                };
                let key = Key { coll, object: object.clone(), omap };
                if is_full {
                    end = Some(Key::between(&out.last_key(), &key));
                    return false;
                }
                if let Some(packed) = packed {
                    let upto = packed.lower_bound(&key);
                    packed
                        .entries(at..upto)
                        .for_each(|raw| out.push(|bytes| bytes.extend_from_slice(raw.bytes())));
                    at = upto;
                }
            }
            out.push(|bytes| encode_entry(bytes, coll, object, entry));
            true
        });
        let rest =
            packed.filter(|_| end.is_none()).into_iter().flat_map(|packed| packed.entries(at..packed.end()));
        rest.for_each(|raw| out.push(|bytes| bytes.extend_from_slice(raw.bytes())));
        (out, end)
    }

    /// Calls `visit` with each entry of `[from, to)` that is in memory by itself, in order, until it says false.
    pub(super) fn visit<'a>(
        &'a self,
        from: &Key,
        to: Option<&Key>,
        mut visit: impl FnMut(CollId, &'a HObject, Entry<'a>) -> bool,
    ) {
        let ends = |coll: CollId, object: &HObject, omap: Option<&Bytes>| {
            to.is_some_and(|to| (coll, object, omap) >= (to.coll, &to.object, to.omap.as_ref()))
        };
        for (&coll, objects) in self.colls.range(from.coll..) {
            let low = if coll == from.coll { Bound::Included(&from.object) } else { Bound::Unbounded };
            let mut onodes = objects.onodes.range((low, Bound::Unbounded)).peekable();
            let mut omaps = objects.omaps.range((low, Bound::Unbounded)).peekable();
            loop {
                let names =
                    [onodes.peek().map(|(object, _)| *object), omaps.peek().map(|(object, _)| *object)];
                let Some(object) = names.into_iter().flatten().min() else { break };
                if ends(coll, object, None) {
                    return;
                }
                let is_first = coll == from.coll && *object == from.object;
                let onode = onodes.next_if(|(other, _)| *other == object);
                if let Some((_, onode)) = onode.filter(|_| !is_first || from.omap.is_none())
                    && !visit(coll, object, Entry::Onode(onode))
                {
                    return;
                }
                let Some((_, omap)) = omaps.next_if(|(other, _)| *other == object) else { continue };
                let start = from.omap.as_ref().filter(|_| is_first);
                let low = start.map_or(Bound::Unbounded, |key| Bound::Included(&**key));
                for (key, value) in omap.range(low, Bound::Unbounded) {
                    if ends(coll, object, Some(key)) || !visit(coll, object, Entry::Omap(key, value)) {
                        return;
                    }
                }
            }
        }
    }
}

/// Entries as bytes, and where each begins.
#[derive(Default)]
struct Encoded {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl Encoded {
    fn push(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        self.starts.push(self.bytes.len() as u32);
        append(&mut self.bytes);
    }

    /// The key of the last entry; there is one.
    fn last_key(&self) -> Key {
        let last = self.starts.last().map_or(0, |at| *at as usize);
        decode_key(Bytes::copy_from_slice(&self.bytes[last..])).expect("it was just encoded")
    }

    /// Pages of about the same size; one without bytes if there are no entries.
    fn into_parts(self, first: &Key, page_bytes_max: usize) -> Vec<PageImage> {
        let total = self.bytes.len();
        if total == 0 {
            return vec![PageImage { first: first.clone(), bytes: Bytes::new(), starts: Vec::new() }];
        }
        let is_small = total <= page_bytes_max;
        let count = if is_small { 1 } else { total.div_ceil(part_bytes(page_bytes_max)) };
        // Places among the starts.
        let mut cuts = vec![0];
        let mut part = 1;
        for (place, &at) in self.starts.iter().enumerate() {
            if part < count && at as usize * count >= total * part {
                cuts.push(place);
                part = at as usize * count / total + 1;
            }
        }
        cuts.push(self.starts.len());
        let bytes = Bytes::from(self.bytes);
        let begin = |place: usize| self.starts.get(place).map_or(total, |at| *at as usize);
        let key = |place: usize| {
            decode_key(bytes.slice(begin(place)..begin(place + 1))).expect("it was just encoded")
        };
        let page = |cut: &[usize]| {
            let (from, to) = (begin(cut[0]), begin(cut[1]));
            let between = |place: usize| Key::between(&key(place - 1), &key(place));
            let front = page_front();
            let shift = |at: &u32| *at - from as u32 + front.len() as u32;
            PageImage {
                first: if cut[0] == 0 { first.clone() } else { between(cut[0]) },
                starts: self.starts[cut[0]..cut[1]].iter().map(shift).collect(),
                bytes: [&front, &bytes[from..to]].concat().into(),
            }
        };
        cuts.windows(2).map(page).collect()
    }
}
