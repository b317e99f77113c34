//! The reactor: one turn of the loop, and what its completions mean.

mod files;
mod network;

use std::{
    io, marker::PhantomData, mem, os::fd::AsRawFd, os::fd::OwnedFd, sync::Arc, thread, time::Duration,
};

use crate::{
    BackendKind, Config, ConnId, Event, ListenerId, Signal, Waker,
    backend::{Backend, Completion, Owner, Request},
    buffer_pool::{self, Pool},
    clock,
    connection::Connection,
    file::File,
    listener::Listener,
    signal,
    slab::Slab,
    timers::Timers,
    yielding::YieldBudget,
};

/// Bytes of a read from an eventfd and from a signalfd.
const EVENTFD_BYTES: u32 = 8;
const SIGNALFD_BYTES: u32 = 128;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TimerKey {
    /// The consumer's.
    User(u64),
    /// A connection that is to be closed and waits for the peer: to take what is queued, or to end its stream.
    Linger(ConnId),
    /// A listener whose accept failed.
    Accept(ListenerId),
}

/// An event loop: sockets, files, timers and wake-ups of one thread.
///
/// Dropping it cancels what can be cancelled, waits for what cannot (file writes that the disk has), unless it was
/// abandoned, and closes everything.
pub struct Reactor {
    /// First, so that at drop all requests end before the descriptors they use are closed.
    backend: Backend,
    pool: Arc<Pool>,
    /// When the pool is to age next ([`clock::now`] nanoseconds).
    pool_ages_at: u64,
    connections: Slab<Connection>,
    listeners: Slab<Listener>,
    files: Slab<File>,
    timers: Timers<TimerKey>,
    waker: Waker,
    signals: Option<OwnedFd>,
    /// Connections that may need requests, see `arm`.
    dirty: Vec<ConnId>,
    /// Connections that may have events, see `deliver`.
    ready: Vec<ConnId>,
    /// Reused from turn to turn.
    completions: Vec<Completion>,
    spin: Duration,
    close_patience: Duration,
    yield_budget: YieldBudget,
    /// The last turn had events.
    was_active: bool,
    /// io_uring lets only the thread that made a ring use it.
    not_send: PhantomData<*const ()>,
}

impl Reactor {
    /// A reactor for the calling thread.
    pub fn new(config: Config) -> io::Result<Reactor> {
        let waker = config.waker.clone().map_or_else(Waker::new, Ok)?;
        let signals = config.signals.then(signal::open_signalfd).transpose()?;
        let mut reactor = Reactor {
            backend: Backend::new(&config, &waker)?,
            pool: Arc::default(),
            pool_ages_at: 0,
            connections: Slab::default(),
            listeners: Slab::default(),
            files: Slab::default(),
            timers: Timers::default(),
            waker,
            signals,
            dirty: Vec::new(),
            ready: Vec::new(),
            completions: Vec::new(),
            spin: config.spin,
            close_patience: config.close_patience,
            yield_budget: YieldBudget::default(),
            was_active: false,
            not_send: PhantomData,
        };
        reactor.arm_waker();
        reactor.arm_signals();
        Ok(reactor)
    }

    /// The kernel interface in use: never `Automatic`.
    pub fn backend(&self) -> BackendKind {
        self.backend.kind()
    }

    /// From now on, dropping it waits for no request: for a thread that ends though a device does not answer. What the
    /// device does later it still does, to memory that is leaked.
    pub fn abandon(&mut self) {
        self.backend.abandon();
        self.files.values_mut().for_each(File::leave_locked);
    }

    /// A handle that wakes this reactor from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Fires [`Event::Timer`] with `token` at `at` ([`clock::now`] nanoseconds), instead of when
    /// that token was to fire before. Timers fire in the order of their times, equal times in the
    /// order of tokens.
    pub fn set_timer(&mut self, token: u64, at: u64) {
        self.timers.set(TimerKey::User(token), at);
    }

    /// One turn: hands all queued work to the kernel, waits up to `timeout` (for ever if `None`)
    /// until something happens, and appends what did to `events`; that may be nothing. An error
    /// means that the kernel interface itself is broken.
    pub fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        self.arm_dirty();
        let wait = self.wait(timeout, events.len() > before);
        let mut completions = mem::take(&mut self.completions);
        let result = self.poll_backend(wait, &mut completions);
        for completion in completions.drain(..) {
            self.complete(completion, events);
        }
        self.completions = completions;
        self.deliver_ready(events);
        let now = clock::now();
        self.fire_timers(now, events);
        if now >= self.pool_ages_at {
            self.pool.age();
            self.pool_ages_at = now + buffer_pool::AGE_NS;
        }
        if self.waker.take() {
            events.push(Event::Woken);
        }
        self.was_active = events.len() > before;
        result
    }

    /// How long the kernel may let us sleep.
    fn wait(&self, timeout: Option<Duration>, has_events: bool) -> Option<Duration> {
        if has_events || !self.ready.is_empty() || self.waker.is_notified() {
            return Some(Duration::ZERO);
        }
        let timer = self.timers.wait(clock::now);
        match (timeout, timer) {
            (Some(timeout), Some(timer)) => Some(timeout.min(timer)),
            (timeout, timer) => timeout.or(timer),
        }
    }

    fn poll_backend(&mut self, wait: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        if wait == Some(Duration::ZERO) {
            return self.backend.poll(wait, out);
        }
        if self.was_active && !self.spin.is_zero() && self.spin_for(wait, out)? {
            return Ok(());
        }
        // A wake-up between here and the kernel's sleep writes the eventfd, which ends the sleep.
        let wait = if self.waker.prepare_sleep() { wait } else { Some(Duration::ZERO) };
        self.backend.poll(wait, out)?;
        if self.yield_budget.is_due() { self.let_others_run(out) } else { Ok(()) }
    }

    /// Yields the CPU once, and takes what was completed meanwhile, too.
    fn let_others_run(&mut self, out: &mut Vec<Completion>) -> io::Result<()> {
        let (since, before) = (clock::now(), out.len());
        thread::yield_now();
        self.backend.poll(Some(Duration::ZERO), out)?;
        self.yield_budget.learn(clock::now() - since, out.len() - before);
        Ok(())
    }

    /// Looks for completions without sleeping; false when there was nothing.
    fn spin_for(&mut self, wait: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<bool> {
        let spin = wait.map_or(self.spin, |wait| wait.min(self.spin));
        let until = clock::now() + spin.as_nanos() as u64;
        loop {
            self.backend.poll(Some(Duration::ZERO), out)?;
            if !out.is_empty() || self.waker.is_notified() {
                return Ok(true);
            }
            if clock::now() >= until {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    fn complete(&mut self, completion: Completion, events: &mut Vec<Event>) {
        match completion.owner {
            Owner::Accept(listener) => self.on_accept(listener, completion, events),
            Owner::Connect(conn) => self.on_connect(conn, completion, events),
            Owner::Receive(conn) => self.on_receive(conn, completion),
            Owner::Send(conn) => self.on_send(conn, completion, events),
            Owner::File { file, token } => self.on_file(file, token, completion, events),
            // What woke us is in the waker's state.
            Owner::Wake => self.arm_waker(),
            Owner::Signal => {
                if let Some(Request::ReadSmall { buffer, .. }) = &completion.request {
                    events.extend(Signal::from_info(&buffer[..]).map(Event::Signal));
                }
                self.arm_signals();
            }
        }
    }

    fn arm_waker(&mut self) {
        let (fd, buffer) = (self.waker.raw_fd(), Box::new([0; 128]));
        self.backend.submit(Owner::Wake, Request::ReadSmall { fd, buffer, bytes: EVENTFD_BYTES });
    }

    fn arm_signals(&mut self) {
        if let Some(signals) = &self.signals {
            let (fd, buffer) = (signals.as_raw_fd(), Box::new([0; 128]));
            self.backend.submit(Owner::Signal, Request::ReadSmall { fd, buffer, bytes: SIGNALFD_BYTES });
        }
    }

    fn fire_timers(&mut self, now: u64, events: &mut Vec<Event>) {
        while let Some(key) = self.timers.pop_due(now) {
            match key {
                TimerKey::User(token) => events.push(Event::Timer { token }),
                TimerKey::Linger(conn) => self.lose_patience(conn, events),
                TimerKey::Accept(listener) => self.arm_accept(listener),
            }
        }
    }
}
