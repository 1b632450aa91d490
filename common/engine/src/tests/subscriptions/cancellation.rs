//! A subscription cancelled while an attempt to collect one of its invoices is in flight.

use super::{Shop, at};
use crate::BegunAttempt;
use crate::collect_due_invoices;
use crate::record_outcome;
use crate::schedule_invoice;
use domain::accounts::Scope;
use domain::charges::Batches;
use domain::operations::Origin;
use domain::plans::Interval;
use foundation::clock::Clock;
use foundation::id::InvoiceId;
use providers::{Decline, DeclineType, ProviderResponse};

const NOW: &str = "2026-01-10T00:00:00Z";
const LATER: &str = "2026-01-10T00:00:05Z";

async fn collect(shop: &Shop, now: &str) -> Vec<BegunAttempt> {
    let scope = Scope::AllAccounts(at(now));
    collect_due_invoices(&shop.db, scope, 10, &Origin::default()).await.expect("a run").begun
}

/// Records that an attempt's card was declined.
async fn record_decline(shop: &Shop, begun: &BegunAttempt, kind: DeclineType) {
    let clock = Clock::fixed(at(LATER));
    let batches = Batches::start(shop.db.clone(), clock.clone());
    let claimed = batches.claim(begun.operation).await.expect("claimed").expect("not held");
    let response = ProviderResponse::Declined { decline: Decline { code: "declined".into(), kind }, card: None };
    record_outcome(&shop.db, &claimed, &response, &clock).await.expect("written");
}

#[tokio::test]
async fn attempts_in_flight_at_a_cancellation_are_the_last() {
    let shop = Shop::open().await;
    shop.saved_card().await;
    let subscription = shop.subscribed(Interval::Day, "2026-01-09", "2026-01-09T00:00:00Z").await;
    shop.run(NOW).await;
    // The attempts began on a machine whose clock is ahead, or after the cancellation read its own clock.
    let begun = collect(&shop, LATER).await;
    assert_eq!(begun.len(), 2);
    for begun in &begun {
        let send = "UPDATE operations SET state = 'sending', first_sent_at = now(), last_sent_at = now() WHERE id = $1";
        shop.write(send, begun.operation.uuid()).await;
    }
    shop.cancel(&subscription, NOW).await;
    for (begun, kind) in begun.iter().zip([DeclineType::Soft, DeclineType::Hard]) {
        record_decline(&shop, begun, kind).await;
    }
    assert_eq!(shop.invoice_column(subscription.id, "status").await, ["open"; 2], "not retried");
    assert_eq!(
        shop.invoice_column(subscription.id, "next_attempt_at IS NULL AND NOT collection_exhausted").await,
        ["true"; 2]
    );

    // An invoice that the merchant schedules again is retried, even at the same instant.
    let first = shop.invoice_column(subscription.id, "id").await.remove(0).parse().expect("an id");
    let first = InvoiceId::from_uuid(first);
    schedule_invoice(&shop.db, &shop.caller, first, at(NOW), None, at(NOW)).await.expect("scheduled");
    let begun = collect(&shop, NOW).await;
    record_decline(&shop, &begun[0], DeclineType::Soft).await;
    assert_eq!(shop.invoice_column(subscription.id, "status").await, ["scheduled", "open"]);
    assert_eq!(
        shop.invoice_column(subscription.id, "next_attempt_at IS NOT NULL").await,
        ["true", "false"],
        "and retried"
    );
}
