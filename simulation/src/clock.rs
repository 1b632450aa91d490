//! Virtual time, shared by the simulated processes and, through a file, by Postgres and Redis.

use std::fs::{File, Permissions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};

/// When every history begins: 2026-01-30T22:00:00Z, two hours before a month without a 31st.
pub const BEGIN_US: u64 = 1_769_810_400_000_000;

/// What the file contains; the same layout as in `preload`.
#[repr(C)]
struct Shared {
    now_us: AtomicU64,
    random: AtomicU64,
}

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

/// Creates the file that Postgres and Redis map, and maps it.
///
/// # Errors
/// If the file cannot be created.
#[allow(unsafe_code)]
pub fn create(path: &Path) -> Result<()> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.with_context(|| path.display().to_string())?;
    file.set_len(size_of::<Shared>() as u64)?;
    file.set_permissions(Permissions::from_mode(0o666))?;
    let (access, size) = (libc::PROT_READ | libc::PROT_WRITE, size_of::<Shared>());
    // SAFETY: a new mapping of a file of this size, never removed.
    let memory = unsafe { libc::mmap(ptr::null_mut(), size, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    ensure!(memory != libc::MAP_FAILED, "{} cannot be mapped", path.display());
    SHARED.store(memory.cast(), Ordering::Release);
    Ok(())
}

#[allow(unsafe_code)]
fn shared() -> &'static Shared {
    // SAFETY: null, or the mapping of `create`.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }.expect("clock::create was called")
}

/// Microseconds since 1970.
pub fn now_us() -> u64 {
    shared().now_us.load(Ordering::Relaxed)
}

/// Sets the time and the state of the servers' random generator.
pub fn reset(now_us: u64, random: u64) {
    shared().now_us.store(now_us, Ordering::Relaxed);
    shared().random.store(random, Ordering::Relaxed);
}

/// Moves the time forward; never backward.
pub fn advance_to(us: u64) {
    shared().now_us.fetch_max(us, Ordering::Relaxed);
}
