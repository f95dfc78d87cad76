//! The mapped file itself: where what lies, and the futex.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};

/// First word of the file.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"gpuletSM");
/// Tells builds apart whose layout below or encoding of the state may differ: a fingerprint of both sources.
pub(super) const LAYOUT: u32 =
    fingerprint(include_bytes!("map.rs"), fingerprint(include_bytes!("../state.rs"), 0));

/// FNV-1a.
const fn fingerprint(mut text: &[u8], seed: u32) -> u32 {
    let mut hash = 0x811C_9DC5 ^ seed;
    while let [first, rest @ ..] = text {
        hash = (hash ^ *first as u32).wrapping_mul(0x0100_0193);
        text = rest;
    }
    hash
}

/// Room for the header; the slots start on a page of their own.
const HEADER_BYTES: usize = 4096;
/// Room for one encoded state. The file is sparse: what is not reserved costs nothing.
pub(super) const SLOT_BYTES: usize = 4 << 20;
/// Length of the file.
const FILE_BYTES: usize = HEADER_BYTES + 2 * SLOT_BYTES;

/// The first page.
#[repr(C)]
pub(super) struct Header {
    /// [`MAGIC`], stored last when the file is made.
    pub(super) magic: AtomicU64,
    /// [`LAYOUT`].
    pub(super) layout: AtomicU32,
    /// Process id of the server.
    pub(super) server: AtomicU32,
    /// When the server last showed that it runs, milliseconds of [`monotonic_ms`].
    pub(super) heartbeat_ms: AtomicU64,
    /// Not 0 once the server has ended in order.
    pub(super) stopped: AtomicU32,
    /// The futex word: goes up whenever somebody who waits has reason to look again.
    pub(super) wake: AtomicU32,
    /// Number of the newest state; state `n` lies in slot `n % 2`. 0: none yet.
    pub(super) generation: AtomicU64,
    /// The sequence locks.
    pub(super) slots: [Slot; 2],
}

/// The lock of one slot.
#[repr(C)]
pub(super) struct Slot {
    /// Twice the generation when complete, odd while it is being written.
    pub(super) sequence: AtomicU64,
    /// Bytes of the encoded state.
    pub(super) bytes: AtomicU64,
}

/// Takes room on the disk for the header and for states of so many bytes. A write to a mapping for which there is none
/// ends the process; this tells in time.
pub(super) fn reserve(file: &File, state_bytes: usize) -> io::Result<()> {
    let slots = [HEADER_BYTES, HEADER_BYTES + SLOT_BYTES].map(|at| (at, state_bytes));
    for (at, bytes) in [(0, HEADER_BYTES)].into_iter().chain(slots).filter(|(_, bytes)| *bytes > 0) {
        let number = |bytes: usize| libc::off_t::try_from(bytes).unwrap_or(libc::off_t::MAX);
        nix::fcntl::posix_fallocate(file, number(at), number(bytes))?;
    }
    Ok(())
}

/// A mapped state file.
pub(super) struct Map {
    raw: MmapRaw,
}

impl Map {
    /// Makes the file as long as it must be (all zeros) and maps it.
    pub(super) fn create(file: &File) -> io::Result<Self> {
        file.set_len(FILE_BYTES as u64)?;
        Ok(Self { raw: MmapRaw::map_raw(file)? })
    }

    /// Maps the file for reading: a client cannot damage it.
    pub(super) fn open(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        if bytes < FILE_BYTES as u64 {
            let why = format!("it has {bytes} bytes and should have {FILE_BYTES}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self { raw: MmapOptions::new().map_raw_read_only(file)? })
    }

    /// The header.
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping is page aligned, at least FILE_BYTES long and lives as long as `self`; a Header is made of
        // atomics only, for which every bit pattern is valid and which other processes may change at any time.
        unsafe { &*self.raw.as_ptr().cast::<Header>() }
    }

    /// The words of the slot in which a generation lies.
    pub(super) fn slot(&self, generation: u64) -> (&Slot, &[AtomicU64]) {
        let [even, odd] = &self.header().slots;
        let (slot, offset) = if generation.is_multiple_of(2) {
            (even, HEADER_BYTES)
        } else {
            (odd, HEADER_BYTES + SLOT_BYTES)
        };
        // SAFETY: `offset + SLOT_BYTES` lies within the mapping and is a multiple of 8; words are atomics, see `header`.
        let words = unsafe {
            std::slice::from_raw_parts(self.raw.as_ptr().add(offset).cast::<AtomicU64>(), SLOT_BYTES / 8)
        };
        (slot, words)
    }

    /// Wakes everybody who waits, in every process. For the map that was created: an opened one cannot be written to.
    pub(super) fn wake_all(&self) {
        let word = &self.header().wake;
        word.fetch_add(1, Ordering::AcqRel);
        // SAFETY: FUTEX_WAKE reads nothing but the address of a word that is mapped as long as `self` lives.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Sleeps until somebody is woken since `seen` was read from the futex word, at most for `limit`.
    pub(super) fn wait(&self, seen: u32, limit: Duration) {
        let limit = libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(1),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let word = &self.header().wake;
        // SAFETY: the word is mapped as long as `self` lives, the time specification outlives the call. That it returns
        // early (EAGAIN, EINTR) is fine: the caller looks again either way.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const limit) };
    }
}

/// Milliseconds of a clock that all processes of the machine share and nobody sets.
pub(super) fn monotonic_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place to write to. The clock exists on every Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}
