//! An OSD as a check of a whole cluster sees it: its PGs, and what it holds of requests and of work under way.

use pg::Pg;

use crate::Osd;

impl Osd {
    /// The PGs that it holds.
    pub fn pgs(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.all()
    }

    /// What this shard holds, by kind, beside what its PGs do: nothing once all requests have ended and all PGs are
    /// clean.
    pub fn held(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let kinds = [
            ("clients' ops", self.admission.ops()),
            ("bytes of clients' ops", self.admission.requests.bytes()),
            ("bytes of ops that wait for a map", self.admission.ahead.bytes()),
            ("bytes of ops that wait for a PG", self.admission.early.bytes()),
            ("slots of copies", self.admission.copying.taken()),
            ("slots of large reads", self.admission.reading.taken()),
            ("requests that wait for a slot to read", self.admission.reading.waiting() as u64),
            ("notifications", self.admission.notifying.ops()),
            ("bytes of notifications", self.admission.notifying.bytes()),
            ("messages that wait for a map", self.waiting.len() as u64),
            ("requests for PGs to come", self.pgs.early_count() as u64),
            ("slots of scrubs", self.scrub_policy.slots.taken()),
            ("slots of recovery", self.recovery_policy.active.taken()),
            ("targets of recovery", self.recovery_policy.active.targets() as u64),
            ("maps to be fetched", u64::from(self.whole_map.is_some())),
        ];
        kinds.into_iter().filter(|(_, count)| *count > 0)
    }
}
