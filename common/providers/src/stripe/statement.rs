//! The statement: Stripe's balance transactions of charges, refunds and disputes, oldest first. Stripe lists the newest
//! first, so windows of time are read one by one: what is added meanwhile is in later ones.

use super::objects::{
    BalanceTransaction, Dispute, Expandable, IntentStatus, List, PaymentIntent, Refund, RefundStatus, Source, money,
    reference, time,
};
use super::wire::{self, Session};
use super::{charge, disputes};
use crate::{
    Booked, BookedKind, BookedState, Entry, ParentCharge, ProviderError, ProviderResponse, Statement, StatementLine,
};
use foundation::time::Timestamp;

/// Balance transactions on a page. With their payments, more might be larger than a response may be.
const PAGE: &str = "25";
/// Pages in a window of time: one with more is divided.
const PAGES_OF_WINDOW: usize = 4;
/// Pages after which a reading ends, so that it takes a few seconds at most.
const PAGES: usize = 12;
/// The longest window, in seconds.
const DAY: i64 = 24 * 60 * 60;

pub(super) async fn read(stripe: Session<'_>, since: Timestamp, limit: usize) -> Result<Statement, ProviderError> {
    let mut lines = Vec::new();
    let newest = page(stripe, &[("limit", "1")]).await?.data;
    let Some(newest) = newest.first().map(|transaction| transaction.created) else {
        return Ok(Statement { lines, until: None, unfinished_since: None });
    };
    let (mut from, mut length, mut pages) = (since.as_millisecond().div_euclid(1000), DAY, 0);
    while from <= newest {
        let (mut read, is_whole) = window(stripe, (from, from + length), &mut pages).await?;
        if !is_whole && length > 1 {
            // So many were booked between the oldest of these and the end. A shorter window has fewer.
            let oldest = read.last().map_or(from, |transaction| transaction.created);
            length = ((from + length - oldest) / 2).clamp(1, length / 2);
            continue;
        }
        read.reverse();
        for transaction in &read {
            lines.extend(of_transaction(stripe, transaction).await?);
        }
        from += length;
        length = (length * 2).min(DAY);
        if from <= newest && (lines.len() >= limit || pages >= PAGES) {
            return Ok(Statement { lines, until: Some(time(from)?), unfinished_since: None });
        }
    }
    Ok(Statement { lines, until: None, unfinished_since: None })
}

/// The balance transactions of a time, the newest first, and whether these are all. All of a single second are read.
async fn window(
    stripe: Session<'_>,
    (from, to): (i64, i64),
    pages: &mut usize,
) -> Result<(Vec<BalanceTransaction>, bool), ProviderError> {
    let is_divisible = to - from > 1;
    let (from, to) = (from.to_string(), to.to_string());
    let mut all: Vec<BalanceTransaction> = Vec::new();
    for read in 0.. {
        if read == PAGES_OF_WINDOW && is_divisible {
            return Ok((all, false));
        }
        let after = all.last().map(|transaction| transaction.id.clone());
        let mut parameters = vec![
            ("limit", PAGE),
            ("created[gte]", from.as_str()),
            ("created[lt]", to.as_str()),
            ("expand[]", "data.source.payment_intent"),
        ];
        parameters.extend(after.as_deref().map(|after| ("starting_after", after)));
        let page = page(stripe, &parameters).await?;
        *pages += 1;
        let more = page.has_more && !page.data.is_empty();
        all.extend(page.data);
        if !more {
            break;
        }
    }
    Ok((all, true))
}

async fn page(stripe: Session<'_>, parameters: &[(&str, &str)]) -> Result<List<BalanceTransaction>, ProviderError> {
    let path = wire::query("/v1/balance_transactions", parameters);
    stripe.get(&path).await?.ok_or_else(|| ProviderError::Unknown("no balance transactions".to_owned()))
}

/// The lines of a balance transaction; none of one that concerns no card payment, such as a payout or a fee.
async fn of_transaction(
    stripe: Session<'_>,
    transaction: &BalanceTransaction,
) -> Result<Vec<StatementLine>, ProviderError> {
    let Some(source) = transaction.source.as_ref().and_then(Expandable::object) else { return Ok(Vec::new()) };
    let intent = match source {
        Source::Charge(charge) => &charge.payment_intent,
        Source::Refund(refund) => &refund.payment_intent,
        Source::Dispute(dispute) => &dispute.payment_intent,
        Source::Other => return Ok(Vec::new()),
    };
    let intent = match intent {
        Some(Expandable::Object(intent)) => (**intent).clone(),
        Some(Expandable::Id(id)) => charge::retrieve(stripe, id).await?,
        // Money that moved without a payment is none of ours, and is reported.
        None => return Ok(vec![stray(transaction)?]),
    };
    match source {
        // A capture may be days later than its authorization.
        Source::Charge(_) => Ok(of_intent(&intent)?
            .into_iter()
            .map(|line| Ok(StatementLine { occurred_at: time(transaction.created)?, ..line }))
            .collect::<Result<_, ProviderError>>()?),
        Source::Refund(refund) if transaction.amount <= 0 => Ok(of_refund(refund, &intent)?.into_iter().collect()),
        // A refund that failed gives the money back to the merchant. Our books have the refund: an operator must see that.
        Source::Refund(_) => Ok(vec![StatementLine { follows: Some(parent(&intent)), ..stray(transaction)? }]),
        Source::Dispute(dispute) => Ok(vec![of_dispute(dispute, transaction, &intent)?]),
        Source::Other => Ok(Vec::new()),
    }
}

fn parent(intent: &PaymentIntent) -> ParentCharge {
    ParentCharge { provider_ref: intent.id.clone(), reference: intent.reference().to_owned() }
}

/// The lines of a payment itself: its charge, and its capture or cancellation.
pub(super) fn of_intent(intent: &PaymentIntent) -> Result<Vec<StatementLine>, ProviderError> {
    let done = |what: &str| ProviderResponse::Done { provider_ref: format!("{}:{what}", intent.id) };
    let line = |entry, what: &str, amount, at| -> Result<StatementLine, ProviderError> {
        Ok(StatementLine {
            entry,
            reference: intent.follow_up().unwrap_or_default().to_owned(),
            provider_ref: format!("{}:{what}", intent.id),
            money: intent.money(amount)?,
            follows: Some(parent(intent)),
            response: done(what),
            occurred_at: time(at)?,
        })
    };
    if !intent.was_approved() {
        return Ok(Vec::new());
    }
    let amount = if intent.is_sale() { intent.amount_received } else { intent.amount };
    let mut lines = vec![StatementLine {
        entry: Entry::Charge,
        reference: intent.reference().to_owned(),
        provider_ref: intent.id.clone(),
        money: intent.money(amount)?,
        follows: None,
        response: ProviderResponse::Charged {
            provider_ref: intent.id.clone(),
            amount: intent.money(amount)?.minor,
            card: intent.card(),
        },
        occurred_at: time(intent.created)?,
    }];
    match intent.status {
        IntentStatus::Succeeded if !intent.is_sale() => {
            lines.push(line(Entry::Capture, "capture", intent.amount_received, intent.created)?);
        }
        // No operation requested the end of an authorization that has expired.
        IntentStatus::Canceled if intent.has_expired() => {}
        IntentStatus::Canceled => {
            lines.push(line(Entry::Void, "void", intent.amount, intent.canceled_at.unwrap_or(intent.created))?);
        }
        IntentStatus::Succeeded
        | IntentStatus::RequiresPaymentMethod
        | IntentStatus::RequiresConfirmation
        | IntentStatus::RequiresAction
        | IntentStatus::Processing
        | IntentStatus::RequiresCapture
        | IntentStatus::Unknown => {}
    }
    Ok(lines)
}

/// The line of a refund, or of the void that it is; `None` if it failed.
pub(super) fn of_refund(refund: &Refund, intent: &PaymentIntent) -> Result<Option<StatementLine>, ProviderError> {
    if refund.has_failed() {
        return Ok(None);
    }
    Ok(Some(StatementLine {
        entry: if refund.is_void() { Entry::Void } else { Entry::Refund },
        reference: reference(&refund.metadata).to_owned(),
        provider_ref: refund.id.clone(),
        money: money(&refund.id, refund.amount, &refund.currency)?,
        follows: Some(parent(intent)),
        response: ProviderResponse::Done { provider_ref: refund.id.clone() },
        occurred_at: time(refund.created)?,
    }))
}

fn of_dispute(
    dispute: &Dispute,
    transaction: &BalanceTransaction,
    intent: &PaymentIntent,
) -> Result<StatementLine, ProviderError> {
    let (entry, provider_ref) = if disputes::gives_back(transaction) {
        (Entry::DisputeReinstated, &transaction.id)
    } else {
        (Entry::DisputeWithdrawn, &dispute.id)
    };
    Ok(StatementLine {
        entry,
        reference: String::new(),
        provider_ref: provider_ref.clone(),
        money: money(&dispute.id, dispute.amount, &dispute.currency)?,
        follows: Some(parent(intent)),
        response: ProviderResponse::Done { provider_ref: provider_ref.clone() },
        occurred_at: time(transaction.created)?,
    })
}

/// Money that belongs to no payment.
fn stray(transaction: &BalanceTransaction) -> Result<StatementLine, ProviderError> {
    Ok(StatementLine {
        entry: Entry::Credit,
        reference: String::new(),
        provider_ref: transaction.id.clone(),
        money: money(&transaction.id, transaction.amount.abs(), &transaction.currency)?,
        follows: None,
        response: ProviderResponse::Done { provider_ref: transaction.id.clone() },
        occurred_at: time(transaction.created)?,
    })
}

/// The line of one of our references at Stripe.
pub(super) async fn booked_line(
    stripe: Session<'_>,
    provider_ref: &str,
) -> Result<Option<StatementLine>, ProviderError> {
    if is_movement(provider_ref) {
        return moved(stripe, provider_ref).await;
    }
    if wire::is_id("re_", provider_ref) {
        let Some(refund) = refund(stripe, provider_ref).await? else { return Ok(None) };
        let Some(Expandable::Object(intent)) = &refund.payment_intent else { return Ok(None) };
        return of_refund(&refund, intent);
    }
    let id = provider_ref.split(':').next().unwrap_or_default();
    let Some(intent) = charge::find(stripe, id).await? else { return Ok(None) };
    Ok(of_intent(&intent)?.into_iter().find(|line| line.provider_ref == provider_ref))
}

/// Whether this is a reference of disputed money: of a dispute, or of the transaction that gives it back.
fn is_movement(provider_ref: &str) -> bool {
    ["du_", "dp_", "txn_"].iter().any(|prefix| wire::is_id(prefix, provider_ref))
}

/// The line of disputed money.
async fn moved(stripe: Session<'_>, provider_ref: &str) -> Result<Option<StatementLine>, ProviderError> {
    if wire::is_id("txn_", provider_ref) {
        let path =
            wire::query(&format!("/v1/balance_transactions/{provider_ref}"), &[("expand[]", "source.payment_intent")]);
        let Some(transaction) = stripe.get::<BalanceTransaction>(&path).await? else { return Ok(None) };
        return Ok(of_transaction(stripe, &transaction).await?.into_iter().next());
    }
    let path = wire::query(&format!("/v1/disputes/{provider_ref}"), &[("expand[]", "payment_intent")]);
    let Some(dispute) = stripe.get::<Dispute>(&path).await? else { return Ok(None) };
    let withdrawn = dispute.balance_transactions.iter().find(|part| !disputes::gives_back(part));
    let (Some(withdrawn), Some(Expandable::Object(intent))) = (withdrawn, &dispute.payment_intent) else {
        return Ok(None);
    };
    of_dispute(&dispute, withdrawn, intent).map(Some)
}

async fn refund(stripe: Session<'_>, id: &str) -> Result<Option<Refund>, ProviderError> {
    stripe.get(&wire::query(&format!("/v1/refunds/{id}"), &[("expand[]", "payment_intent")])).await
}

/// A transaction for an operator, by its reference at Stripe.
pub(super) async fn booked(stripe: Session<'_>, provider_ref: &str) -> Result<Option<Booked>, ProviderError> {
    if wire::is_id("re_", provider_ref) {
        let Some(refund) = refund(stripe, provider_ref).await? else { return Ok(None) };
        return Ok(Some(Booked {
            kind: if refund.is_void() { BookedKind::Void } else { BookedKind::Refund },
            state: match refund.status {
                Some(RefundStatus::Succeeded | RefundStatus::Pending) => BookedState::Approved,
                Some(RefundStatus::Failed | RefundStatus::Canceled) => BookedState::Failed,
                Some(RefundStatus::RequiresAction | RefundStatus::Unknown) | None => BookedState::Pending,
            },
            money: Some(money(&refund.id, refund.amount, &refund.currency)?),
            reference: Some(reference(&refund.metadata).to_owned()).filter(|reference| !reference.is_empty()),
            charge: refund.payment_intent.as_ref().and_then(Expandable::object).map(|intent| intent.id.clone()),
        }));
    }
    let id = provider_ref.split(':').next().unwrap_or_default();
    let Some(intent) = charge::find(stripe, id).await? else { return Ok(None) };
    let lines = of_intent(&intent)?;
    let line = lines.iter().find(|line| line.provider_ref == provider_ref);
    let kind = match line.map(|line| line.entry) {
        Some(Entry::Capture) => BookedKind::Capture,
        Some(Entry::Void) => BookedKind::Void,
        _ if intent.is_sale() => BookedKind::Sale,
        _ => BookedKind::Authorize,
    };
    Ok(Some(Booked {
        kind,
        state: match intent.status {
            IntentStatus::Succeeded | IntentStatus::RequiresCapture => BookedState::Approved,
            IntentStatus::Canceled if line.is_some() => BookedState::Approved,
            IntentStatus::Canceled | IntentStatus::RequiresPaymentMethod => BookedState::Failed,
            IntentStatus::RequiresConfirmation
            | IntentStatus::RequiresAction
            | IntentStatus::Processing
            | IntentStatus::Unknown => BookedState::Pending,
        },
        money: if kind == BookedKind::Void {
            None
        } else {
            Some(line.map_or(intent.money(intent.amount), |line| Ok(line.money))?)
        },
        reference: line.map(|line| line.reference.clone()).filter(|reference| !reference.is_empty()),
        charge: (kind == BookedKind::Capture || kind == BookedKind::Void).then(|| intent.id.clone()),
    }))
}
