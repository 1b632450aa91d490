//! Reads a provider's statement between two instants.

use std::collections::HashSet;

use domain::operations::PROVIDER_TIMEOUT;
use domain::operations::books::RecordedOperation;
use foundation::id::ProviderAccountId;
use foundation::time::Timestamp;
use providers::{Provider, StatementLine};

/// Lines per page, and maximum number of pages.
const PAGE: i64 = 1000;
const MAX_PAGES: usize = 500;

/// Returns all lines between two instants of the provider's clock, or why they could not be read.
pub async fn statement_between(
    provider: &dyn Provider,
    account: ProviderAccountId,
    mut since: Timestamp,
    end: Timestamp,
) -> Result<Vec<StatementLine>, String> {
    let (mut lines, mut seen): (Vec<StatementLine>, HashSet<String>) = <_>::default();
    for _ in 0..MAX_PAGES {
        let response = tokio::time::timeout(PROVIDER_TIMEOUT * 6, provider.statement(account, since, PAGE)).await;
        let page = response.map_err(|_| "the statement timed out".to_owned())?.map_err(|error| error.to_string())?;
        let before = lines.len();
        let new = page.lines.into_iter();
        lines.extend(new.filter(|line| line.occurred_at < end && seen.insert(line.provider_ref.clone())));
        match page.until.filter(|until| *until < end) {
            Some(until) if until > since || lines.len() > before => since = until,
            Some(until) => return Err(format!("the statement makes no progress beyond {until}")),
            None => return Ok(lines),
        }
    }
    Err(format!("the statement up to {end} is too long"))
}

/// Returns a predicate: whether an operation is listed in these lines, by its reference or by its provider_ref.
pub fn listed_in(lines: &[StatementLine]) -> impl Fn(&RecordedOperation) -> bool {
    let references = lines.iter().map(|line| line.reference.clone()).filter(|reference| !reference.is_empty());
    let references: HashSet<_> = references.collect();
    let provider_refs: HashSet<_> = lines.iter().map(|line| line.provider_ref.clone()).collect();
    move |recorded: &RecordedOperation| {
        references.contains(&recorded.reference)
            || recorded.provider_ref.as_ref().is_some_and(|provider_ref| provider_refs.contains(provider_ref))
    }
}
