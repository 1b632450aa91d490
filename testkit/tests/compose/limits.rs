//! Limits of memory and processes, enforced by control groups where these can be created.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::project::Service;

const TOP: &str = "/sys/fs/cgroup";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Applies the limits of a service to a process and its future children.
pub(crate) fn set(group: &str, pid: u32, service: &Service) -> Result<()> {
    let is_v2 = Path::new(TOP).join("cgroup.controllers").exists();
    let memory = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    for (controller, file, limit) in [("memory", memory, service.memory), ("pids", "pids.max", service.pids)] {
        let (Some(limit), Some(folder)) = (limit, folder(controller)) else { continue };
        let group = folder.join(group);
        fs::create_dir_all(&group)?;
        fs::write(group.join(file), limit.to_string()).with_context(|| file.to_owned())?;
        fs::write(group.join("cgroup.procs"), pid.to_string()).context("cgroup.procs")?;
    }
    Ok(())
}

/// The limit of open files that can be set here: a process without `CAP_SYS_RESOURCE` cannot exceed the limit of this
/// test process.
pub(crate) fn open_files(requested: u64) -> Result<u64> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("Max open files")?;
    let own = line.split_whitespace().nth(4).and_then(|limit| limit.parse().ok()).unwrap_or(u64::MAX);
    let status = fs::read_to_string("/proc/self/status")?;
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).context("CapEff")?;
    let can_raise = u64::from_str_radix(capabilities, 16)? & (1 << 24) != 0;
    Ok(if can_raise { requested } else { requested.min(own) })
}

/// Why the limits cannot be enforced on this machine, if they cannot.
pub(crate) fn unavailable() -> Option<&'static str> {
    let can = |controller: &str| {
        let probe = folder(controller).map(|folder| folder.join(format!("payments-probe-{}", std::process::id())));
        probe.is_some_and(|probe| fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok())
    };
    (!CONTROLLERS.into_iter().all(can)).then_some("control groups cannot be created")
}

/// Removes the groups with this prefix. They must have no processes.
pub(crate) fn remove(prefix: &str) {
    for folder in CONTROLLERS.into_iter().filter_map(folder) {
        let groups = fs::read_dir(folder).into_iter().flatten().flatten();
        for group in groups.filter(|group| group.file_name().to_string_lossy().starts_with(prefix)) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

/// The folder for groups of a controller: one tree for cgroup v2, a tree per controller for v1.
fn folder(controller: &str) -> Option<PathBuf> {
    let top = Path::new(TOP);
    match fs::read_to_string(top.join("cgroup.subtree_control")) {
        Ok(enabled) => enabled.split_whitespace().any(|name| name == controller).then(|| top.to_owned()),
        Err(_) => Some(top.join(controller)).filter(|folder| folder.join("cgroup.procs").exists()),
    }
}
