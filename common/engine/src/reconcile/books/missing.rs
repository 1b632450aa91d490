//! Entries of our books that are not in a provider's statement: each is looked up by its provider reference before it
//! counts as missing, so that neither the boundaries of a statement nor clock skew create false differences.

use super::{Difference, OurEntry};
use domain::operations::PROVIDER_TIMEOUT;
use foundation::id::ProviderAccountId;
use providers::{Provider, StatementLine};

/// The result of looking entries up.
pub struct LookUpResult<T> {
    /// Entries that differ, with the provider's line, if it has one.
    pub differ: Vec<(T, Difference, Option<StatementLine>)>,
    /// The first entry that was not looked up, with the error; `None` as error if the limit was reached. All before
    /// it were looked up.
    pub stopped: Option<(T, Option<String>)>,
}

/// Looks up at most `limit` entries of our books: operations that succeeded, or disputed money.
pub async fn look_up_missing<T>(
    provider: &dyn Provider,
    account: ProviderAccountId,
    entries: Vec<T>,
    limit: usize,
) -> LookUpResult<T>
where
    for<'a> OurEntry<'a>: From<&'a T>,
{
    let mut result = LookUpResult { differ: vec![], stopped: None };
    for (n, recorded) in entries.into_iter().enumerate() {
        if n >= limit {
            result.stopped = Some((recorded, None));
            return result;
        }
        // Every succeeded operation has a provider_ref: the code guarantees it, not a table constraint.
        let Some(provider_ref) = OurEntry::from(&recorded).provider_ref().map(str::to_owned) else { continue };
        let response = tokio::time::timeout(PROVIDER_TIMEOUT, provider.booked_line(account, provider_ref)).await;
        match response
            .map_err(|_| "the look-up timed out".to_owned())
            .and_then(|response| response.map_err(|why| why.to_string()))
        {
            Ok(None) => result.differ.push((recorded, Difference::MissingAtProvider, None)),
            Ok(Some(line)) => {
                if let Some(difference) = OurEntry::from(&recorded).difference(&line) {
                    result.differ.push((recorded, difference, Some(line)));
                }
            }
            Err(why) => {
                result.stopped = Some((recorded, Some(why)));
                return result;
            }
        }
    }
    result
}
