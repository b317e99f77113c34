//! Ops on xattrs, omap and versions.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use classes::{ObjectView, Stop, cmp_values, holds};
use codec::{Decode, Encode, Features, Reader};
use messages::OsdOp;
use types::Errno;

use super::{OBJECT_BYTES_MAX, Output, Run};

/// `osd_max_omap_entries_per_request`.
const OMAP_COUNT_MAX: u64 = 1024;
/// How many bytes a list of omap entries may have before it ends and says that there are more, as with
/// `osd_max_omap_bytes_per_request` (1 GiB): such a list is in memory more than once.
const OMAP_BYTES_MAX: usize = OBJECT_BYTES_MAX as usize;

fn input<T: Decode>(reader: &mut Reader) -> Result<T, Stop> {
    T::decode(reader).map_err(|_| Errno::EINVAL.into())
}

fn done() -> Result<Output, Stop> {
    Ok(Output::default())
}

/// Splits an xattr op's data into name and value.
fn name_and_value(step: &OsdOp) -> Result<(Bytes, Bytes), Stop> {
    let (name, value) = (step.params.u32_at(0) as usize, step.params.u32_at(4) as usize);
    if name.checked_add(value).is_none_or(|sum| sum > step.data.len()) {
        return Err(Errno::EINVAL.into());
    }
    Ok((step.data.slice(..name), step.data.slice(name..name + value)))
}

/// `strtoull` of base 10: the number that the text begins with, 0 if there is none. A negative one counts from 2^64
/// down; what is too large, of either sign, is the largest number.
fn leading_u64(text: &[u8]) -> u64 {
    const VERTICAL_TAB: u8 = 0x0b;
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == VERTICAL_TAB;
    let text = &text[text.iter().take_while(|b| is_space(b)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut digits = digits.iter().take_while(|b| b.is_ascii_digit()).map(|b| u64::from(b - b'0'));
    match digits.try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(digit)) {
        Some(number) if is_negative => number.wrapping_neg(),
        Some(number) => number,
        None => u64::MAX,
    }
}

impl Run<'_, '_> {
    pub(super) fn get_xattr(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let (name, _) = name_and_value(step)?;
        let value = self.view.xattr(&name)?.ok_or(Errno::ENODATA)?;
        Ok(Output { value_len: Some(value.len() as u32), ..value.into() })
    }

    pub(super) fn get_xattrs(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        Ok(self.view.xattrs()?.to_bytes(Features::default()).into())
    }

    pub(super) fn set_xattr(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (name, value) = name_and_value(step)?;
        self.view.set_xattr(&name, value)?;
        done()
    }

    pub(super) fn remove_xattr(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (name, _) = name_and_value(step)?;
        self.view.remove_xattr(&name)?;
        done()
    }

    pub(super) fn compare_xattr(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        const MODE_STRING: u8 = 1;
        const MODE_U64: u8 = 2;
        self.view.check_exists()?;
        let (name, given) = name_and_value(step)?;
        let stored = self.view.xattr(&name)?.unwrap_or_default();
        let (op, mode) = (step.params.u8_at(8), step.params.u8_at(9));
        // The operator stands between the given value and the stored one.
        let order = match mode {
            MODE_STRING => given.cmp(&stored),
            MODE_U64 => input::<u64>(&mut Reader::new(given))?.cmp(&leading_u64(&stored)),
            _ => return Err(Errno::EINVAL.into()),
        };
        if holds(op, order)? {
            Ok(Output { result: 1, ..Output::default() })
        } else {
            Err(Errno::ECANCELED.into())
        }
    }

    pub(super) fn omap_keys(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (after, count): (Bytes, u64) = input(&mut Reader::new(step.data.clone()))?;
        let count = count.min(OMAP_COUNT_MAX) as usize;
        let (entries, has_more) = self.view.omap_list_within(&after, b"", count, OMAP_BYTES_MAX)?;
        let keys: BTreeSet<Bytes> = entries.into_iter().map(|(k, _)| k).collect();
        Ok((keys, has_more).to_bytes(Features::default()).into())
    }

    pub(super) fn omap_values(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (after, count, prefix): (Bytes, u64, Bytes) = input(&mut Reader::new(step.data.clone()))?;
        let count = count.min(OMAP_COUNT_MAX) as usize;
        let (entries, has_more) = self.view.omap_list_within(&after, &prefix, count, OMAP_BYTES_MAX)?;
        let map: BTreeMap<Bytes, Bytes> = entries.into_iter().collect();
        Ok((map, has_more).to_bytes(Features::default()).into())
    }

    pub(super) fn omap_values_by_keys(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_count(&step.data)?;
        let keys: BTreeSet<Bytes> = input(&mut Reader::new(step.data.clone()))?;
        let values = self.view.omap_get_all(keys.iter())?;
        let found = keys.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?)));
        Ok(found.collect::<BTreeMap<_, _>>().to_bytes(Features::default()).into())
    }

    pub(super) fn omap_header(&mut self) -> Result<Output, Stop> {
        Ok(self.view.omap_header()?.into())
    }

    pub(super) fn omap_compare(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        self.view.check_count(&step.data)?;
        let wanted: BTreeMap<Bytes, (Bytes, i32)> = input(&mut Reader::new(step.data.clone()))?;
        let stored = self.view.omap_get_all(wanted.keys())?;
        for ((given, op), stored) in wanted.into_values().zip(stored) {
            let stored = stored.unwrap_or_default();
            // Only these of the comparisons of xattrs are supported: equal, greater, less.
            let op = u8::try_from(op).ok().filter(|op| [1, 3, 5].contains(op)).ok_or(Errno::EINVAL)?;
            if !holds(op, cmp_values(&stored, &given))? {
                return Err(Errno::ECANCELED.into());
            }
        }
        done()
    }

    pub(super) fn omap_set(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        // As in Ceph, the object is made even if the keys cannot be read; if a key comes twice, the last value counts.
        self.view.make_exist();
        self.view.check_count(&step.data)?;
        let entries: Vec<(Bytes, Bytes)> = input(&mut Reader::new(step.data.clone()))?;
        self.view.omap_set(entries.into_iter().collect())?;
        done()
    }

    pub(super) fn omap_set_header(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.omap_set_header(step.data.clone())?;
        done()
    }

    pub(super) fn omap_remove(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        self.view.check_count(&step.data)?;
        let keys: BTreeSet<Bytes> = input(&mut Reader::new(step.data.clone()))?;
        self.view.omap_remove(keys.into_iter().collect())?;
        done()
    }

    pub(super) fn omap_remove_range(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let (first, last): (Bytes, Bytes) = input(&mut Reader::new(step.data.clone()))?;
        self.view.omap_remove_range(&first, &last)?;
        done()
    }

    pub(super) fn omap_clear(&mut self) -> Result<Output, Stop> {
        self.view.omap_clear()?;
        done()
    }

    pub(super) fn assert_version(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (given, version) = (step.params.u64_at(8), self.view.user_version());
        match given.cmp(&version) {
            _ if given == 0 => Err(Errno::EINVAL.into()),
            std::cmp::Ordering::Less => Err(Errno::ERANGE.into()),
            std::cmp::Ordering::Greater => Err(Errno::EOVERFLOW.into()),
            std::cmp::Ordering::Equal => done(),
        }
    }
}
