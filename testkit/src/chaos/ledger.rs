//! The ledgers of the providers.

use std::{collections::BTreeSet, fs};

use anyhow::Result;

use super::system::System;
use crate::proxy::Proxy;

/// A line of a provider's ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct LedgerLine {
    pub(super) shop: usize,
    pub(super) id: String,
    /// Recorded by the gateway rather than by the mock.
    pub(super) at_gateway: bool,
    /// `sale`, `authorize`, `capture`, `void`, `refund`.
    pub(super) kind: String,
    pub(super) parent: Option<String>,
    pub(super) reference: String,
    pub(super) approved: bool,
    /// The provider was interrupted: it did nothing, and no issuer declined.
    pub(super) interrupted: bool,
    pub(super) voided: bool,
    pub(super) amount: i64,
    /// The part of the amount that the provider added.
    pub(super) fee: i64,
    pub(super) currency: String,
    pub(super) at: i64,
}

impl LedgerLine {
    pub(super) fn is_charge(&self) -> bool {
        ["sale", "authorize"].contains(&self.kind.as_str())
    }
}

/// The number of approved charges whose response was lost, according to the logs for the mock and to our proxies for
/// the gateway.
pub(super) async fn charges_with_lost_response(system: &System) -> Result<usize> {
    let mut lost: BTreeSet<String> = system.proxies.gateway.iter().flat_map(Proxy::lost).collect();
    for file in fs::read_dir(system.cluster.logs())?.flatten() {
        let text = String::from_utf8_lossy(&fs::read(file.path())?).into_owned();
        // The second text is the previous release's.
        let lost_texts = ["configured to drop this response", "told to lose this answer"];
        for line in text.lines().filter(|line| lost_texts.iter().any(|text| line.contains(text))) {
            let at = line.find("operation=").map(|at| &line[at + "operation=".len()..]);
            lost.extend(at.and_then(|rest| rest.split_whitespace().next()).map(str::to_owned));
        }
    }
    let ledger = read(system).await?;
    let charged = ledger.iter().filter(|line| line.is_charge() && line.approved);
    Ok(charged.filter(|line| lost.contains(&line.reference)).count())
}

pub(super) async fn read(system: &System) -> Result<Vec<LedgerLine>> {
    type Row = (String, String, Option<String>, Option<String>, bool, bool, bool, i64, i64, String, i64);
    // The acquirer's record has the database's time; the gateway's own row has the time of a process, whose clock may
    // be wrong.
    const AT_GATEWAY: &str =
        "SELECT t.id::text, kind, parent_id::text, reference_id, state = 'approved', state = 'failed', voided, amount, fee, currency,
                (extract(epoch FROM coalesce(b.created_at, t.created_at)) * 1000)::bigint
         FROM gateway.transactions t LEFT JOIN gateway.acquirer_books b ON b.reference = t.id
         WHERE account_id = $1 AND state IN ('approved', 'declined', 'failed') ORDER BY t.created_at";
    const AT_MOCK: &str =
        "SELECT id, kind, parent, reference, approved, false, voided_at IS NOT NULL, amount, 0::bigint, currency,
                (extract(epoch FROM created_at) * 1000)::bigint
         FROM mock.transactions WHERE account = $1 ORDER BY created_at";
    let mut all = Vec::new();
    for (shop, accounts) in system.shops.iter().enumerate() {
        for (provider, query, at_gateway) in
            [(accounts.gateway_account_id, AT_GATEWAY, true), (accounts.mock_account_id, AT_MOCK, false)]
        {
            let Some(provider) = provider else { continue };
            for row in sqlx::query_as::<_, Row>(query).bind(provider).fetch_all(&system.db).await? {
                let (id, kind, parent, reference, approved, interrupted, voided, amount, fee, currency, at) = row;
                let reference = reference.unwrap_or_default();
                all.push(LedgerLine {
                    shop,
                    id,
                    at_gateway,
                    kind,
                    parent,
                    reference,
                    approved,
                    interrupted,
                    voided,
                    amount,
                    fee,
                    currency,
                    at,
                });
            }
        }
    }
    Ok(all)
}
