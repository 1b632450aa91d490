//! The ledgers of the providers.

use std::{collections::BTreeSet, fs};

use anyhow::Result;

use serde_json::Value;

use super::{access::Access, system::System};
use crate::proxy::Proxy;
use crate::stripe::{Stripe, StripeKeys};

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
    let ledger = read(&system.access()).await?;
    let charged = ledger.iter().filter(|line| line.is_charge() && line.approved);
    Ok(charged.filter(|line| lost.contains(&line.reference)).count())
}

pub(super) async fn read(access: &Access<'_>) -> Result<Vec<LedgerLine>> {
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
    for (shop, accounts) in access.shops.iter().enumerate() {
        for (provider, query, at_gateway) in
            [(accounts.gateway_account_id, AT_GATEWAY, true), (accounts.mock_account_id, AT_MOCK, false)]
        {
            let Some(provider) = provider else { continue };
            for row in sqlx::query_as::<_, Row>(query).bind(provider).fetch_all(access.db).await? {
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
    for (shop, of) in access.shops.iter().enumerate() {
        let (Some(stripe), Some(keys)) = (access.stripe, &of.stripe) else { continue };
        all.extend(at_stripe(shop, stripe, keys));
    }
    Ok(all)
}

/// What the double of Stripe has of a merchant.
fn at_stripe(shop: usize, stripe: &Stripe, keys: &StripeKeys) -> Vec<LedgerLine> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let added = |id: &str| stripe.added(keys, id).unwrap_or_default();
    let charges = stripe.objects(keys, "charge");
    let mut all = Vec::new();
    for intent in stripe.objects(keys, "payment_intent") {
        let (id, status) = (text(&intent["id"]), text(&intent["status"]));
        let is_sale = intent["capture_method"] != "manual";
        let line = |kind: &str| LedgerLine {
            shop,
            kind: kind.to_owned(),
            approved: true,
            amount: intent["amount"].as_i64().unwrap_or_default(),
            currency: text(&intent["currency"]).to_uppercase(),
            at: added(&id),
            ..LedgerLine::default()
        };
        let refunds =
            stripe.objects(keys, "refund").into_iter().filter(|refund| refund["payment_intent"] == id.as_str());
        let refunds: Vec<_> = refunds.collect();
        let is_void = |refund: &Value| !refund["metadata"]["void"].is_null();
        all.push(LedgerLine {
            id: id.clone(),
            reference: text(&intent["metadata"]["reference"]),
            approved: ["succeeded", "requires_capture", "canceled"].contains(&&*status),
            voided: status == "canceled" || refunds.iter().any(is_void),
            ..line(if is_sale { "sale" } else { "authorize" })
        });
        let of_charge = |kind: &str| LedgerLine { parent: Some(id.clone()), ..line(kind) };
        if status == "succeeded" && !is_sale {
            all.push(LedgerLine {
                id: format!("{id}:capture"),
                reference: text(&intent["metadata"]["follow_up"]),
                amount: intent["amount_received"].as_i64().unwrap_or_default(),
                at: charges
                    .iter()
                    .find(|charge| charge["id"] == intent["latest_charge"])
                    .map_or(0, |charge| added(&text(&charge["balance_transaction"]))),
                ..of_charge("capture")
            });
        }
        if status == "canceled" {
            all.push(LedgerLine { id: format!("{id}:void"), ..of_charge("void") });
        }
        all.extend(refunds.iter().map(|refund| LedgerLine {
            id: text(&refund["id"]),
            reference: text(&refund["metadata"]["reference"]),
            amount: refund["amount"].as_i64().unwrap_or_default(),
            at: added(&text(&refund["id"])),
            ..of_charge(if is_void(refund) { "void" } else { "refund" })
        }));
    }
    all
}
