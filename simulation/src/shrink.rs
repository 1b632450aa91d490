//! Removes from a failing history what its failure does not need.

use anyhow::Result;

use crate::history::History;

/// The shortest history found that `fails`, by removing ever smaller parts of its faults and requests.
///
/// # Errors
/// The errors of `fails`.
pub fn shrink(history: &History, mut fails: impl FnMut(&History) -> Result<bool>) -> Result<History> {
    let mut best = history.clone();
    let mut size = (best.faults.len() + best.requests.len()) / 2;
    while size > 0 {
        let mut start = 0;
        while start < best.faults.len() + best.requests.len() {
            let shorter = without(&best, start, size);
            if fails(&shorter)? {
                best = shorter;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    Ok(best)
}

/// The history without `size` steps from `start`, counting the faults first.
fn without(history: &History, start: usize, size: usize) -> History {
    let is_kept = |index: usize| !(start..start + size).contains(&index);
    let faults = history.faults.len();
    let mut shorter = history.clone();
    let mut index = 0..;
    shorter.faults.retain(|_| index.next().is_some_and(is_kept));
    let mut index = faults..;
    shorter.requests.retain(|_| index.next().is_some_and(is_kept));
    shorter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::generate;

    #[test]
    fn only_the_steps_that_the_failure_needs_remain() {
        let history = (1..).map(generate).find(|history| history.faults.len() > 3).expect("a history with faults");
        let (fault, request) = (history.faults[3].at, history.requests[17].at);
        let fails = |history: &History| {
            Ok(history.faults.iter().any(|step| step.at == fault)
                && history.requests.iter().any(|step| step.at == request))
        };
        let shortest = shrink(&history, fails).expect("no error");
        assert_eq!((shortest.faults.len(), shortest.requests.len()), (1, 1), "{shortest:?}");
    }
}
