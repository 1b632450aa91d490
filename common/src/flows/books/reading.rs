//! Reading a provider's statement between two instants.

use std::collections::HashSet;

use crate::id::ProviderAccountId;
use crate::operations::PROVIDER_TIMEOUT;
use crate::operations::books::Known;
use crate::providers::{Provider, StatementLine};
use crate::time::Timestamp;

/// Lines of one reading, and readings at most.
const LINES: i64 = 1000;
const READINGS: usize = 500;

/// All lines from one instant to another, by the provider's clock, or why there are none.
pub(in crate::flows) async fn between(
    provider: &dyn Provider,
    account: ProviderAccountId,
    mut since: Timestamp,
    end: Timestamp,
) -> Result<Vec<StatementLine>, String> {
    let (mut lines, mut seen): (Vec<StatementLine>, HashSet<String>) = <_>::default();
    for _ in 0..READINGS {
        let asked = tokio::time::timeout(PROVIDER_TIMEOUT * 6, provider.statement(account, since, LINES)).await;
        let page = asked.map_err(|_| "no statement in time".to_owned())?.map_err(|fault| fault.to_string())?;
        let full = i64::try_from(page.len()).is_ok_and(|count| count >= LINES);
        let last = page.last().map(|line| line.occurred_at);
        let before = lines.len();
        lines.extend(page.into_iter().filter(|line| line.occurred_at < end && seen.insert(line.provider_ref.clone())));
        match last {
            Some(last) if full && last < end && lines.len() > before => since = last,
            Some(last) if full && last < end => return Err(format!("the statement stands still at {last}")),
            _ => return Ok(lines),
        }
    }
    Err(format!("the statement up to {end} is too long"))
}

/// Which operations these lines tell of: by their references, and by the provider's names for what it did.
pub(in crate::flows) fn told_by(lines: &[StatementLine]) -> impl Fn(&Known) -> bool {
    let references = lines.iter().map(|line| line.reference.clone()).filter(|reference| !reference.is_empty());
    let references: HashSet<_> = references.collect();
    let names: HashSet<_> = lines.iter().map(|line| line.provider_ref.clone()).collect();
    move |known: &Known| {
        references.contains(&known.reference) || known.provider_ref.as_ref().is_some_and(|name| names.contains(name))
    }
}
