//! Replaces the functions with which Postgres and Redis read the wall clock and random bytes. The simulator and the
//! servers share one small file: the virtual time, and the state of the random generator. Monotonic clocks stay real,
//! because the servers use them for their own housekeeping only.
//!
//! Without `SIMULATION_CLOCK` in the environment the program is aborted, so the library is never loaded by accident.
#![allow(clippy::missing_safety_doc, reason = "as for the functions that they replace")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file that `SIMULATION_CLOCK` names.
#[repr(C)]
struct Shared {
    /// Microseconds since 1970.
    now_us: AtomicU64,
    /// Increased by each random word; the next word is a function of it.
    random: AtomicU64,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<&'static Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        const VARIABLE: &CStr = c"SIMULATION_CLOCK";
        // SAFETY: the path is a valid C string or null, and the mapping is never removed.
        unsafe {
            let path = libc::getenv(VARIABLE.as_ptr());
            let fd = if path.is_null() { -1 } else { libc::open(path, libc::O_RDWR | libc::O_CLOEXEC) };
            let (read_write, size) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Shared>());
            let memory = libc::mmap(ptr::null_mut(), size, read_write, libc::MAP_SHARED, fd, 0);
            if memory == libc::MAP_FAILED {
                libc::abort();
            }
            libc::close(fd);
            &*memory.cast::<Shared>()
        }
    })
}

/// The virtual time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    let now = shared().now_us.load(Ordering::Relaxed) as i64;
    // SAFETY: as for the function of the C library.
    unsafe { time.write(libc::timeval { tv_sec: now / 1_000_000, tv_usec: now % 1_000_000 }) };
    0
}

/// The virtual time in seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(result: *mut libc::time_t) -> libc::time_t {
    let now = (shared().now_us.load(Ordering::Relaxed) / 1_000_000) as libc::time_t;
    if !result.is_null() {
        // SAFETY: as for the function of the C library.
        unsafe { result.write(now) };
    }
    now
}

/// The virtual time for the wall clock; all other clocks are real.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, result: *mut libc::timespec) -> c_int {
    if clock != libc::CLOCK_REALTIME {
        // SAFETY: the system call that this function replaces.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, result) } as c_int;
    }
    let now = shared().now_us.load(Ordering::Relaxed) as i64;
    // SAFETY: as for the function of the C library.
    unsafe { result.write(libc::timespec { tv_sec: now / 1_000_000, tv_nsec: now % 1_000_000 * 1_000 }) };
    0
}

/// A timer of Postgres, which is not shorter than a millisecond. Postgres sets it for what is left until a timeout by the
/// virtual time, which stands still while it computes: a timer of microseconds would interrupt it again and again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setitimer(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int {
    // SAFETY: as for the function of the C library.
    let mut timer = unsafe { new.read() };
    if timer.it_value.tv_sec == 0 && timer.it_value.tv_usec > 0 {
        timer.it_value.tv_usec = timer.it_value.tv_usec.max(1_000);
    }
    // SAFETY: the system call that this function replaces.
    unsafe { libc::syscall(libc::SYS_setitimer, which, &raw const timer, old) as c_int }
}

/// Postgres takes its random bytes from OpenSSL.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RAND_bytes(buffer: *mut u8, length: c_int) -> c_int {
    // SAFETY: as for the function of OpenSSL.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, usize::try_from(length).unwrap_or(0)) };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&next_word().to_le_bytes()[..chunk.len()]);
    }
    1
}

/// SplitMix64.
fn next_word() -> u64 {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut word = shared().random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
