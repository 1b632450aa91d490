//! Functions of the C library that the simulator replaces. In a simulated process they give virtual time, seeded random
//! bytes and virtual sockets; in every other thread they make the system call that they replace.
//!
//! The linker prefers these definitions to those of the C library, for the standard library and for every crate.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::Ordering;

use libc::{clockid_t, sockaddr, sockaddr_in, sockaddr_un, socklen_t, ssize_t, timespec};

use super::{CURRENT, Idle, Shared, lock};
use crate::clock;

/// The process of this thread.
fn current() -> Option<&'static Shared> {
    // SAFETY: the thread that set the pointer holds an Arc while it is set.
    CURRENT.try_with(|current| unsafe { current.get().as_ref() }).ok().flatten()
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the error number of this thread.
    unsafe { *libc::__errno_location() = error };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(id: clockid_t, result: *mut timespec) -> c_int {
    let Some(process) = current() else {
        // SAFETY: the system call that this function replaces; likewise below.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, id, result) } as c_int;
    };
    let offset = if id == libc::CLOCK_REALTIME { process.wall_offset_us.load(Ordering::Relaxed) } else { 0 };
    let now = clock::now_us() as i64 + offset;
    unsafe { result.write(timespec { tv_sec: now / 1_000_000, tv_nsec: now % 1_000_000 * 1_000 }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> ssize_t {
    let Some(process) = current() else {
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) } as ssize_t;
    };
    lock(&process.random).fill(unsafe { std::slice::from_raw_parts_mut(buffer.cast(), length) });
    length as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpid() -> libc::pid_t {
    match current() {
        Some(process) => process.pid,
        None => unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout: c_int) -> c_int {
    let wait = |timeout: c_int| unsafe { libc::syscall(libc::SYS_epoll_wait, epoll, events, max, timeout) } as c_int;
    let Some(process) = current() else { return wait(timeout) };
    let ready = wait(0);
    if ready != 0 || timeout == 0 {
        return ready;
    }
    process.idle(match u64::try_from(timeout) {
        Ok(milliseconds) => Idle::Until(clock::now_us() + milliseconds * 1_000),
        Err(_) => Idle::Forever,
    });
    wait(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let to = unsafe { read_address(address) };
    let (Some(process), Some(to)) = (current(), to) else {
        return unsafe { libc::syscall(libc::SYS_connect, fd, address, length) } as c_int;
    };
    let mut pair = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) < 0
            || libc::dup3(pair[0], fd, libc::O_CLOEXEC) < 0
        {
            return -1;
        }
        libc::close(pair[0]);
        lock(&process.sockets).record_opened(fd, UnixStream::from_raw_fd(pair[1]), to);
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let real = |fd: c_int, address: *const sockaddr, length: socklen_t| unsafe {
        libc::syscall(libc::SYS_bind, fd, address, length)
    } as c_int;
    let to = unsafe { read_address(address) };
    let (Some(process), Some(to)) = (current(), to) else { return real(fd, address, length) };
    // An address of only its family is bound to a free name in the abstract namespace.
    let mut name: sockaddr_un = unsafe { zeroed() };
    name.sun_family = libc::AF_UNIX as u16;
    let mut name_length = size_of::<sockaddr_un>() as socklen_t;
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        let family_only = size_of::<libc::sa_family_t>() as socklen_t;
        let named = socket >= 0
            && real(socket, (&raw const name).cast(), family_only) == 0
            && libc::syscall(libc::SYS_getsockname, socket, &raw mut name, &raw mut name_length) == 0
            && libc::dup3(socket, fd, libc::O_CLOEXEC) >= 0;
        libc::close(socket);
        if !named {
            return -1;
        }
    }
    // After the family and the leading null byte.
    let name = name.sun_path[1..name_length as usize - 2].iter().map(|byte| *byte as u8).collect();
    lock(&process.sockets).record_bound(fd, name, to.port());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    let Some(process) = current() else {
        return unsafe { libc::syscall(libc::SYS_accept4, fd, address, length, flags) } as c_int;
    };
    let none = ptr::null_mut::<c_void>();
    let accepted = unsafe { libc::syscall(libc::SYS_accept4, fd, none, none, flags) } as c_int;
    if accepted < 0 {
        return accepted;
    }
    match lock(&process.sockets).record_accepted(fd, accepted) {
        Ok(client) => unsafe { write_address(client, address, length) },
        Err(_) => return fail(libc::ECONNABORTED),
    }
    accepted
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    match current().and_then(|process| lock(&process.sockets).local_address(fd)) {
        Some(local) => unsafe { write_address(local, address, length) },
        None => return unsafe { libc::syscall(libc::SYS_getsockname, fd, address, length) } as c_int,
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    match current().and_then(|process| lock(&process.sockets).peer_address(fd)) {
        Some(peer) => unsafe { write_address(peer, address, length) },
        None => return unsafe { libc::syscall(libc::SYS_getpeername, fd, address, length) } as c_int,
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, size: socklen_t) -> c_int {
    if current().is_some() && level == libc::IPPROTO_TCP {
        return 0;
    }
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, size) as c_int }
}

/// The IPv4 address; `None` for any other family.
unsafe fn read_address(address: *const sockaddr) -> Option<SocketAddr> {
    unsafe {
        if c_int::from((*address).sa_family) != libc::AF_INET {
            return None;
        }
        let address = address.cast::<sockaddr_in>().read_unaligned();
        let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
        Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
    }
}

unsafe fn write_address(from: SocketAddr, address: *mut sockaddr, length: *mut socklen_t) {
    let SocketAddr::V4(from) = from else { return };
    if address.is_null() {
        return;
    }
    unsafe {
        let mut result: sockaddr_in = zeroed();
        result.sin_family = libc::AF_INET as u16;
        result.sin_port = from.port().to_be();
        result.sin_addr.s_addr = u32::from(*from.ip()).to_be();
        let size = (*length as usize).min(size_of::<sockaddr_in>());
        ptr::copy_nonoverlapping((&raw const result).cast::<u8>(), address.cast::<u8>(), size);
        length.write(size_of::<sockaddr_in>() as socklen_t);
    }
}
