//! The place of a process that crashes and starts.

/// A process that runs, or what a crash has left of it.
pub(crate) enum Slot<P, K> {
    Up(P),
    Down(K),
    /// Between the two.
    Moving,
}

impl<P, K> Slot<P, K> {
    pub(crate) fn up(&self) -> Option<&P> {
        match self {
            Slot::Up(process) => Some(process),
            Slot::Down(_) | Slot::Moving => None,
        }
    }

    pub(crate) fn crash(&mut self, crash: impl FnOnce(P) -> K) {
        *self = match std::mem::replace(self, Slot::Moving) {
            Slot::Up(process) => Slot::Down(crash(process)),
            other => other,
        };
    }

    /// Starts the process if it is down. Returns why it stays down, if it cannot start.
    pub(crate) fn start(&mut self, start: impl FnOnce(K) -> Result<P, (K, String)>) -> Result<(), String> {
        let mut outcome = Ok(());
        *self = match std::mem::replace(self, Slot::Moving) {
            Slot::Down(kept) => start(kept).map_or_else(
                |(kept, why)| {
                    outcome = Err(why);
                    Slot::Down(kept)
                },
                Slot::Up,
            ),
            other => other,
        };
        outcome
    }

    pub(crate) fn up_mut(&mut self) -> Option<&mut P> {
        match self {
            Slot::Up(process) => Some(process),
            Slot::Down(_) | Slot::Moving => None,
        }
    }
}
