//! A subscription that is cancelled while an attempt to collect one of its invoices is in flight.

use super::{Shop, at};
use crate::accounts::Scope;
use crate::clock::Clock;
use crate::flows::{Begun, collect_due_invoices, record_outcome, schedule_invoice};
use crate::id::InvoiceId;
use crate::operations::{self, Origin};
use crate::plans::Interval;
use crate::providers::{Answer, Decline, DeclineType};

const NOW: &str = "2026-01-10T00:00:00Z";
const LATER: &str = "2026-01-10T00:00:05Z";

async fn collect(shop: &Shop, now: &str) -> Vec<Begun> {
    let scope = Scope::Everyone(at(now));
    collect_due_invoices(&shop.db, scope, 10, &Origin::default()).await.expect("a run").begun
}

/// The card of an attempt is declined.
async fn is_declined(shop: &Shop, begun: &Begun, kind: DeclineType) {
    let clock = Clock::fixed(at(LATER));
    let claimed = operations::claim(&shop.db, begun.operation, clock.now()).await.expect("asked").expect("free");
    let answer = Answer::Declined { decline: Decline { code: "declined".into(), kind }, card: None };
    record_outcome(&shop.db, &claimed, &answer, &clock).await.expect("written");
}

#[tokio::test]
async fn what_is_in_flight_is_the_last_attempt_whatever_the_clocks_say() {
    let shop = Shop::open().await;
    shop.saved_card().await;
    let made = shop.subscribed(Interval::Day, "2026-01-09", "2026-01-09T00:00:00Z").await;
    shop.run(NOW).await;
    // Whoever began the attempts has a clock that is ahead, or began them after the cancellation had read its own.
    let begun = collect(&shop, LATER).await;
    assert_eq!(begun.len(), 2);
    shop.cancel(&made, NOW).await;
    for (begun, kind) in begun.iter().zip([DeclineType::Soft, DeclineType::Hard]) {
        is_declined(&shop, begun, kind).await;
    }
    assert_eq!(shop.of_invoices(made.id, "status").await, ["open"; 2], "not tried again");
    assert_eq!(shop.of_invoices(made.id, "next_attempt_at IS NULL AND NOT collection_exhausted").await, ["true"; 2]);

    // What its merchant schedules again is wanted, and be it by a clock that stands still.
    let first = shop.of_invoices(made.id, "id").await.remove(0).parse().expect("an id");
    let first = InvoiceId::from_uuid(first);
    schedule_invoice(&shop.db, &shop.caller, first, at(NOW), None, at(NOW)).await.expect("scheduled");
    let begun = collect(&shop, NOW).await;
    is_declined(&shop, &begun[0], DeclineType::Soft).await;
    assert_eq!(shop.of_invoices(made.id, "status").await, ["scheduled", "open"]);
    assert_eq!(shop.of_invoices(made.id, "next_attempt_at IS NOT NULL").await, ["true", "false"], "and retried");
}
