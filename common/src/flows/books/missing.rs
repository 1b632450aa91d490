//! What our books have as done and a provider's statement does not show: each is looked up by the provider's own name for it before
//! it is called missing, so that neither a boundary of the statement nor a clock that is off makes a difference of it.

use super::{Difference, as_asked};
use crate::id::ProviderAccountId;
use crate::operations::PROVIDER_TIMEOUT;
use crate::operations::books::Known;
use crate::providers::{Provider, StatementLine};

/// What has come of looking some operations up.
#[derive(Default)]
pub(in crate::flows) struct Candidates {
    /// Those that differ, with what the provider has instead, if anything.
    pub(in crate::flows) differ: Vec<(Known, Difference, Option<StatementLine>)>,
    /// The first that could not be looked up, or was one too many, and why. All before it were.
    pub(in crate::flows) stopped: Option<(Known, Option<String>)>,
}

/// Looks up operations that our books have as succeeded, `most` of them at most.
pub(in crate::flows) async fn look_up(
    provider: &dyn Provider,
    account: ProviderAccountId,
    unseen: Vec<Known>,
    most: usize,
) -> Candidates {
    let mut candidates = Candidates::default();
    for (n, known) in unseen.into_iter().enumerate() {
        if n >= most {
            candidates.stopped = Some((known, None));
            return candidates;
        }
        // What succeeded has a name: a constraint of the code that writes it, and not of the table.
        let Some(name) = known.provider_ref.clone() else { continue };
        let asked = tokio::time::timeout(PROVIDER_TIMEOUT, provider.booked_line(account, name)).await;
        match asked.map_err(|_| "no look-up in time".to_owned()).and_then(|said| said.map_err(|why| why.to_string())) {
            Ok(None) => candidates.differ.push((known, Difference::MissingAtProvider, None)),
            Ok(Some(line)) => {
                if let Some(difference) = as_asked(&known, &line) {
                    candidates.differ.push((known, difference, Some(line)));
                }
            }
            Err(why) => {
                candidates.stopped = Some((known, Some(why)));
                return candidates;
            }
        }
    }
    candidates
}
