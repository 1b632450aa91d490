//! Limits of memory and of processes, kept by the kernel's control groups where they can be made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::project::Service;

const TOP: &str = "/sys/fs/cgroup";
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Puts a process, with all that it will start, under the limits of its service.
pub(crate) fn set(group: &str, pid: u32, service: &Service) -> Result<()> {
    let is_second = Path::new(TOP).join("cgroup.controllers").exists();
    let memory = if is_second { "memory.max" } else { "memory.limit_in_bytes" };
    for (controller, file, most) in [("memory", memory, service.memory), ("pids", "pids.max", service.pids)] {
        let (Some(most), Some(folder)) = (most, folder(controller)) else { continue };
        let group = folder.join(group);
        fs::create_dir_all(&group)?;
        fs::write(group.join(file), most.to_string()).with_context(|| file.to_owned())?;
        fs::write(group.join("cgroup.procs"), pid.to_string()).context("cgroup.procs")?;
    }
    Ok(())
}

/// Open files at most, as it is wanted and as this machine gives it: only who has `CAP_SYS_RESOURCE` may have more than the limit
/// that the test itself has.
pub(crate) fn files(wanted: u64) -> Result<u64> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("Max open files")?;
    let own = line.split_whitespace().nth(4).and_then(|most| most.parse().ok()).unwrap_or(u64::MAX);
    let status = fs::read_to_string("/proc/self/status")?;
    let may = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).context("CapEff")?;
    let may_raise = u64::from_str_radix(may, 16)? & (1 << 24) != 0;
    Ok(if may_raise { wanted } else { wanted.min(own) })
}

/// Why they are not kept on this machine, if they are not.
pub(crate) fn left_out() -> Option<&'static str> {
    let can = |controller: &str| {
        let probe = folder(controller).map(|folder| folder.join(format!("payments-probe-{}", std::process::id())));
        probe.is_some_and(|probe| fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok())
    };
    (!CONTROLLERS.into_iter().all(can)).then_some("no control groups can be made")
}

/// Removes the groups whose names begin so. Nobody may be in them any more.
pub(crate) fn remove(prefix: &str) {
    for folder in CONTROLLERS.into_iter().filter_map(folder) {
        let groups = fs::read_dir(folder).into_iter().flatten().flatten();
        for group in groups.filter(|group| group.file_name().to_string_lossy().starts_with(prefix)) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

/// Where groups for a controller are made: in the one tree of the second version, or in the first version's own.
fn folder(controller: &str) -> Option<PathBuf> {
    let top = Path::new(TOP);
    let second = fs::read_to_string(top.join("cgroup.subtree_control"));
    match second {
        Ok(enabled) => enabled.split_whitespace().any(|known| known == controller).then(|| top.to_owned()),
        Err(_) => Some(top.join(controller)).filter(|folder| folder.join("cgroup.procs").exists()),
    }
}
