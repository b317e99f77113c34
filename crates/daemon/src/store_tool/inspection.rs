//! A store that is only looked at, with what its questions need read from the device.

use anyhow::{Context, Result, bail};
use reactor::Reactor;
use store::{Completion, Config, Inspected, Mount, NotCached, ObjectStore, Store};
use types::{CollId, HObject, Token};

use super::StoreTarget;
use crate::device::Device;

/// Memory for the index, in bytes.
const INDEX_BYTES: u64 = 64 << 20;
/// Objects asked for at once.
const LIST_MAX: usize = 1_000;
/// Holds what a question needs until it is answered.
const QUESTION: Token = Token(1);

/// A store that is only looked at, with its device on a reactor.
pub(super) struct Inspection {
    reactor: Reactor,
    device: Device,
    pub(super) inspected: Inspected,
    /// Problems that whoever asks knows of.
    known: usize,
    /// Answers may lack what damage hides that is found on the way.
    goes_on: bool,
}

impl Inspection {
    /// Opens it as a mount would, and changes nothing.
    pub(super) fn open(target: &StoreTarget) -> Result<Inspection> {
        let mut reactor = Reactor::new(reactor::Config::default())?;
        let (_, mut device) = target.open(&mut reactor)?;
        let config = Config { index_bytes_max: INDEX_BYTES, ..device.store_config() };
        let mut mount = Store::inspect(device.sizes(), config);
        let inspected = device.drive(
            &mut reactor,
            &mut mount,
            Mount::take_commands,
            Mount::device_done,
            Mount::take_inspected,
            &|| Ok(()),
        )?;
        let inspected = inspected?;
        let known = inspected.problems().len();
        Ok(Inspection { reactor, device, inspected, known, goes_on: false })
    }

    /// From now on answers may lack what damage hides that is found on the way: see [`Inspected::problems`] afterwards.
    pub(super) fn go_on_without_what_is_damaged(&mut self) {
        self.goes_on = true;
    }

    /// The damage that was seen up to now, in words.
    pub(super) fn damage(&self) -> Option<String> {
        let problems: Vec<String> = self.inspected.problems().iter().map(ToString::to_string).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Asks until it is answered, and has read what is missing meanwhile.
    ///
    /// # Errors
    /// When that cannot be read; when it brings to light that the index is damaged, unless that is no matter.
    pub(super) fn ask<T>(&mut self, question: impl Fn(&Store) -> Result<T, NotCached>) -> Result<T> {
        loop {
            match question(&self.inspected.store) {
                Ok(answer) => {
                    self.inspected.store.unload(QUESTION);
                    self.inspected.forget();
                    match self.inspected.problems().get(self.known..) {
                        Some([problem, ..]) if !self.goes_on => bail!("{problem}"),
                        _ => return Ok(answer),
                    }
                }
                Err(missing) => self.load(missing)?,
            }
        }
    }

    /// The next objects of a collection, in order: behind one, or from the first one on. None behind the last one.
    pub(super) fn objects_after(&mut self, coll: CollId, last: Option<&HObject>) -> Result<Vec<HObject>> {
        let from = last.cloned().unwrap_or_else(HObject::min);
        // The list begins with where it is asked to begin.
        let mut names = self.ask(|store| store.list(coll, &from, LIST_MAX))?;
        names.retain(|name| Some(name) != last);
        Ok(names)
    }

    fn load(&mut self, missing: NotCached) -> Result<()> {
        let what = missing.object().to_string();
        let store = &mut self.inspected.store;
        store.load(QUESTION, missing);
        loop {
            for completion in store.take_completions() {
                if let Completion::Loaded(_, result) = completion {
                    return result.with_context(|| format!("reading {what}"));
                }
            }
            self.device.submit(store.take_commands(), &mut self.reactor);
            for (token, result) in self.device.wait(&mut self.reactor)? {
                store.device_done(token, result);
            }
        }
    }
}
