//! Operations that succeeded in our books and are not in a provider's statement: each is looked up by its provider
//! reference before it counts as missing, so that neither the boundaries of a statement nor clock skew create false
//! differences.

use super::{Difference, request_difference};
use domain::operations::PROVIDER_TIMEOUT;
use domain::operations::books::RecordedOperation;
use foundation::id::ProviderAccountId;
use providers::{Provider, StatementLine};

/// The result of looking operations up.
#[derive(Default)]
pub struct LookUpResult {
    /// Operations that differ, with the provider's line, if it has one.
    pub differ: Vec<(RecordedOperation, Difference, Option<StatementLine>)>,
    /// The first operation that was not looked up, with the error; `None` as error if the limit was reached. All before
    /// it were looked up.
    pub stopped: Option<(RecordedOperation, Option<String>)>,
}

/// Looks up at most `limit` operations that succeeded in our books.
pub async fn look_up_missing(
    provider: &dyn Provider,
    account: ProviderAccountId,
    operations: Vec<RecordedOperation>,
    limit: usize,
) -> LookUpResult {
    let mut result = LookUpResult::default();
    for (n, recorded) in operations.into_iter().enumerate() {
        if n >= limit {
            result.stopped = Some((recorded, None));
            return result;
        }
        // Every succeeded operation has a provider_ref: the code guarantees it, not a table constraint.
        let Some(provider_ref) = recorded.provider_ref.clone() else { continue };
        let response = tokio::time::timeout(PROVIDER_TIMEOUT, provider.booked_line(account, provider_ref)).await;
        match response
            .map_err(|_| "the look-up timed out".to_owned())
            .and_then(|response| response.map_err(|why| why.to_string()))
        {
            Ok(None) => result.differ.push((recorded, Difference::MissingAtProvider, None)),
            Ok(Some(line)) => {
                if let Some(difference) = request_difference(&recorded, &line) {
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
