//! Memory that the kernel has made ready before it is used.
//!
//! Huge pages are worth having (docs/performance.md), but whoever first touches one waits until the kernel has zeroed 2
//! MiB, and in a virtual machine until the hypervisor has found memory for it: up to 5 ms, in which a reactor does
//! nothing else. So mimalloc's first arena is one of ours, which hears what of it comes into use, and a thread makes
//! ready what lies behind that, as mimalloc takes the lowest memory that is free.

use std::{
    ffi::{c_int, c_void},
    fs,
    mem::MaybeUninit,
    ops::{BitOr, Range},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// What is made ready at once: a huge page.
const REGION_BYTES: usize = 2 << 20;
/// Address space of the arena. When it is full, mimalloc gets more by itself, of which nothing is made ready.
const ARENA_BYTES: usize = 4 << 30;
/// `mi_arena_min_alignment`.
const ARENA_ALIGN: usize = 32 << 20;
const REGIONS: usize = ARENA_BYTES / REGION_BYTES;
/// Regions that are kept ready behind each that comes into use.
const AHEAD: usize = 2;

/// Nobody has touched it since the kernel had it last.
const UNTOUCHED: u8 = 0;
/// To be made ready.
const WANTED: u8 = 1;
/// It is in use, or ready for that.
const READY: u8 = 2;

static STATES: [AtomicU8; REGIONS] = [const { AtomicU8::new(UNTOUCHED) }; REGIONS];
/// Where the arena begins; 0 if there is none.
static START: AtomicUsize = AtomicUsize::new(0);
/// The thread that makes memory ready.
static KEEPER: OnceLock<Thread> = OnceLock::new();
/// True while memory is scarce.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);

type CommitFun = extern "C" fn(bool, *mut c_void, usize, *mut bool, *mut c_void) -> bool;

unsafe extern "C" {
    fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        commit_fun: CommitFun,
        commit_fun_arg: *mut c_void,
        arena_id: *mut *mut c_void,
    ) -> bool;
}

/// Runs before `main`, and so before anything is allocated: mimalloc looks for memory in its first arena first.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let bytes = ARENA_BYTES + ARENA_ALIGN;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, wherever there is room.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
    let Ok(mapped) = mapped else { return };
    let start = mapped.wrapping_byte_add(mapped.addr().wrapping_neg() % ARENA_ALIGN);
    // SAFETY: it lies within the mapping, which nobody else knows. Where the kernel has no huge pages, nothing changes.
    let _ = unsafe { madvise(start, ARENA_BYTES, Advice::LinuxHugepage) };
    START.store(start.addr(), Ordering::Relaxed);
    let mut id = ptr::null_mut();
    // SAFETY: the memory is mapped for good, zero, and from here on mimalloc's alone.
    let is_managed = unsafe {
        mi_manage_memory(
            start,
            ARENA_BYTES,
            false,
            false,
            true,
            -1,
            false,
            commit,
            ptr::null_mut(),
            &raw mut id,
        )
    };
    if !is_managed {
        START.store(0, Ordering::Relaxed);
        // SAFETY: the whole mapping, which mimalloc did not take.
        let _ = unsafe { munmap(mapped, bytes) };
    }
}

/// The regions that have some of `size` bytes from `start` on.
fn regions_of(start: *mut c_void, size: usize) -> Range<usize> {
    let at = start.addr().wrapping_sub(START.load(Ordering::Relaxed));
    at / REGION_BYTES..(at + size).div_ceil(REGION_BYTES).min(REGIONS)
}

/// The regions that lie in these bytes as a whole.
fn regions_within(start: *mut c_void, size: usize) -> Range<usize> {
    let at = start.addr().wrapping_sub(START.load(Ordering::Relaxed));
    let first = at.div_ceil(REGION_BYTES);
    first..((at + size) / REGION_BYTES).max(first)
}

/// mimalloc is about to use memory, or no longer does. It calls this from within allocations.
extern "C" fn commit(
    is_used: bool,
    start: *mut c_void,
    size: usize,
    is_zero: *mut bool,
    _: *mut c_void,
) -> bool {
    if !is_used {
        // SAFETY: mimalloc's own memory, which it has no use for.
        let is_gone = unsafe { madvise(start, size, Advice::LinuxDontNeed) }.is_ok();
        if is_gone {
            set(regions_within(start, size), UNTOUCHED);
        }
        return is_gone;
    }
    if !is_zero.is_null() {
        // SAFETY: mimalloc's variable. Part of the memory may have been in use before.
        unsafe { *is_zero = false };
    }
    let used = regions_of(start, size);
    let behind = used.end..(used.end + AHEAD).min(REGIONS);
    set(used, READY);
    if let Some(keeper) = KEEPER.get()
        && !IS_PAUSED.load(Ordering::Relaxed)
        && want(behind)
    {
        keeper.unpark();
    }
    true
}

fn set(regions: Range<usize>, to: u8) {
    STATES[regions].iter().for_each(|state| state.store(to, Ordering::Relaxed));
}

fn change(state: &AtomicU8, from: u8, to: u8) -> bool {
    state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// True if some of these are now wanted that were not.
fn want(regions: Range<usize>) -> bool {
    STATES[regions].iter().map(|state| change(state, UNTOUCHED, WANTED)).fold(false, BitOr::bitor)
}

/// From now on, a thread makes memory ready before it is used. Not on machines with several NUMA nodes: it would take
/// memory of the node where it runs, not of that which uses it.
pub fn keep_ready() {
    let nodes = fs::read_to_string("/sys/devices/system/node/online");
    if nodes.is_ok_and(|nodes| nodes.trim() == "0") {
        start_keeper();
    }
}

fn start_keeper() {
    if START.load(Ordering::Relaxed) == 0 || KEEPER.get().is_some() {
        return;
    }
    let spawned = without_signals(|| {
        thread::Builder::new().name("memory".to_owned()).spawn(|| {
            loop {
                thread::park();
                if !ready_wanted() {
                    return;
                }
            }
        })
    });
    // Without it, memory is what it would be anyway.
    if let Ok(keeper) = spawned {
        KEEPER.get_or_init(|| keeper.thread().clone());
    }
}

/// Begins a thread that signals pass by: they are for those that wait for them, and would end the process here.
fn without_signals<T>(begin: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are written before they are read; the calls cannot fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let begun = begin();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    begun
}

/// Stops making memory ready, or goes on.
pub(crate) fn pause(is_paused: bool) {
    IS_PAUSED.store(is_paused, Ordering::Relaxed);
}

/// Makes ready what is wanted; false if the kernel cannot do that (before Linux 5.14).
fn ready_wanted() -> bool {
    let start = START.load(Ordering::Relaxed);
    for (at, state) in STATES.iter().enumerate() {
        if !change(state, WANTED, READY) {
            continue;
        }
        let region = ptr::with_exposed_provenance_mut(start + at * REGION_BYTES);
        // SAFETY: mapped for good. What is in memory stays, whoever uses it meanwhile: only what is missing is added.
        if unsafe { madvise(region, REGION_BYTES, Advice::LinuxPopulateWrite) }.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::{
        alloc::{GlobalAlloc, Layout},
        io::{Read, Seek, SeekFrom},
        time::Duration,
    };

    use super::*;
    use crate::{Allocator, tests::EAGERNESS};

    fn region(at: usize) -> *mut c_void {
        ptr::with_exposed_provenance_mut(START.load(Ordering::Relaxed) + at * REGION_BYTES)
    }

    fn state(at: usize) -> u8 {
        STATES[at].load(Ordering::Relaxed)
    }

    /// True if the first page of the region is in memory, by the kernel's account.
    fn is_resident(at: usize) -> bool {
        let mut pages = fs::File::open("/proc/self/pagemap").unwrap();
        let mut entry = [0; 8];
        pages.seek(SeekFrom::Start((region(at).addr() / 4096 * 8) as u64)).unwrap();
        pages.read_exact(&mut entry).unwrap();
        u64::from_le_bytes(entry) >> 63 == 1
    }

    #[test]
    fn memory_comes_from_the_arena() {
        let layout = Layout::from_size_align(100_000, 8).unwrap();
        // SAFETY: freed once, with the layout that it has.
        unsafe {
            let memory = Allocator.alloc(layout);
            let at = regions_of(memory.cast(), layout.size());
            assert!(at.end < REGIONS && at.clone().all(|region| state(region) == READY), "{at:?}");
            Allocator.dealloc(memory, layout);
        }
    }

    /// Far from what mimalloc uses here.
    #[test]
    fn what_lies_behind_memory_in_use_is_made_ready_and_can_go_again() {
        let _eagerness = EAGERNESS.lock();
        let (first, piece) = (REGIONS - 20, 64 << 10);
        let tell = |is_used, start, size| commit(is_used, start, size, ptr::null_mut(), ptr::null_mut());
        assert!(tell(true, region(first), piece));
        assert_eq!([0, 1].map(|at| state(first + at)), [READY, UNTOUCHED], "nobody to make it ready");
        start_keeper();
        pause(true);
        assert!(tell(true, region(first), piece));
        assert_eq!(state(first + 1), UNTOUCHED, "memory is scarce");
        pause(false);
        assert!(tell(true, region(first), piece));
        let is_ready = || (1..=AHEAD).all(|at| is_resident(first + at));
        for _ in 0..60_000 {
            if is_ready() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert!(is_ready());
        assert_eq!([0, 1, AHEAD, AHEAD + 1].map(|at| state(first + at)), [READY, READY, READY, UNTOUCHED]);
        assert!(!is_resident(first + AHEAD + 1));

        // A part of the first and of the last stays what it is, what lies between goes.
        assert!(tell(false, region(first).wrapping_byte_add(piece), 2 * REGION_BYTES));
        assert_eq!([0, 1, 2].map(|at| state(first + at)), [READY, UNTOUCHED, READY]);
        assert!(!is_resident(first + 1));
    }
}
