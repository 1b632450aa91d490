//! CPU and memory usage of processes from `/proc`. Only Linux has it; elsewhere there are no figures.

use std::{collections::BTreeMap, fs, process::Command};

/// A process measured together with its descendants: Postgres runs many.
#[derive(Clone, Debug)]
pub(super) struct MeasuredProcess {
    pub(super) name: String,
    pub(super) pid: u32,
}

/// CPU seconds by name, including exited children.
pub(super) fn cpu_seconds(processes: &[MeasuredProcess]) -> BTreeMap<String, f64> {
    let ticks_per_second = clock_ticks();
    let children = children();
    let mut used = BTreeMap::new();
    for MeasuredProcess { name, pid } in processes {
        let ticks: f64 = process_tree(*pid, &children).into_iter().filter_map(ticks_of).sum();
        *used.entry(name.clone()).or_insert(0.0) += ticks / ticks_per_second;
    }
    used
}

/// Resident memory by name in MiB, including descendants. Shared memory, such as the buffers of Postgres, is counted
/// once.
pub(super) fn memory_mib(processes: &[MeasuredProcess]) -> BTreeMap<String, f64> {
    let children = children();
    let mut used = BTreeMap::new();
    for MeasuredProcess { name, pid } in processes {
        let kib: f64 = process_tree(*pid, &children).into_iter().filter_map(resident_kib).sum();
        *used.entry(name.clone()).or_insert(0.0) += kib / 1024.0;
    }
    used
}

/// The proportional set size: shared pages are divided among the processes that map them.
fn resident_kib(pid: u32) -> Option<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// A process and its descendants.
fn process_tree(pid: u32, children: &BTreeMap<u32, Vec<u32>>) -> Vec<u32> {
    let (mut pending, mut pids) = (vec![pid], Vec::new());
    while let Some(pid) = pending.pop() {
        pending.extend(children.get(&pid).into_iter().flatten());
        pids.push(pid);
    }
    pids
}

fn clock_ticks() -> f64 {
    let output = Command::new("getconf").arg("CLK_TCK").output().ok();
    output.and_then(|output| String::from_utf8(output.stdout).ok()?.trim().parse().ok()).unwrap_or(100.0)
}

/// The fields of /proc/<pid>/stat after the process name, which may contain spaces. The first one is the state.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// utime, stime, cutime and cstime together: proc(5), fields 14 to 17.
fn ticks_of(pid: u32) -> Option<f64> {
    let fields = stat(pid)?;
    Some(fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum())
}

fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(parent) = stat(pid).and_then(|fields| fields.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}
