//! Provider reports about a charge that changes concurrently.

use super::{Shop, at, payment_of, token};
use crate::Executor;
use crate::PaymentRequest;
use crate::charge::outcome::record_outcome_in;
use crate::charge::outcome::stale::Recorded;
use crate::perform;
use crate::reconcile;
use crate::reconcile::inquire::record_report;
use crate::{Change, change_payment};
use domain::charges::{Batches, Claimed};
use domain::operations::Origin;
use domain::payments::{self, InquiryKind};
use foundation::clock::Clock;
use foundation::id::{OperationId, PaymentId};
use foundation::merchant_data::MerchantData;
use providers::{
    Action, ChargeReport, ChargeStatus, DeclineCode, ProviderKind, ProviderResponse, Providers, mock::Mock,
};

const NOW: &str = "2026-01-10T00:00:00Z";

impl Shop {
    fn providers(&self) -> Providers {
        Providers::new(Mock::new((*self.db).clone()), None, None)
    }

    /// Records an outcome, from whichever claim.
    async fn record(&self, claimed: &Claimed, response: &ProviderResponse) -> Recorded {
        let mut tx = self.db.begin().await.expect("a transaction");
        let recorded = record_outcome_in(&mut tx, claimed, response, &Clock::fixed(at(NOW))).await;
        tx.commit().await.expect("committed");
        recorded.expect("recorded").0
    }

    async fn payment_column(&self, payment: PaymentId, column: &str) -> String {
        let query = format!("SELECT coalesce(({column})::text, '') FROM payments WHERE id = $1");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(payment.uuid());
        query.fetch_one(&*self.db).await.expect("the payment")
    }
}

fn declined() -> ProviderResponse {
    ProviderResponse::Declined { decline: DeclineCode::Declined.into(), card: None }
}

fn report(status: ChargeStatus) -> ChargeReport {
    ChargeReport { status, lines: None, disputes: vec![] }
}

#[tokio::test]
async fn reports_from_before_a_capture_are_ignored_after_it() {
    let shop = Shop::open().await;
    let clock = Clock::fixed(at(NOW));
    let (payment, operation) =
        shop.begin_payment(&PaymentRequest { capture: false, ..payment_of(900, token()) }, at(NOW)).await;
    let executor = Executor::start(shop.db.clone(), shop.providers(), clock.clone());
    perform(&executor, operation).await.expect("performed").expect("it ended");
    assert_eq!(shop.payment_column(payment, "status").await, "authorized");

    // The provider reports when the authorization expires, and the capture ends before that is recorded.
    let read = payments::inquiry(&shop.db, payment, at(NOW)).await.expect("read").expect("an inquiry is due");
    let capture = "UPDATE payments SET status = 'pending_settlement', amount_captured = amount,
                       captured_at = '2026-01-10T00:00:00Z', inquiry_at = '2026-01-10T00:01:00Z' WHERE id = $1";
    shop.write(capture, payment.uuid()).await;
    let status = ChargeStatus::Open { until: Some(at("2026-01-17T00:00:00Z")) };
    record_report(&shop.db, &clock, &read, &report(status)).await.expect("recorded");
    let inquiry_at = async |when: &str| shop.payment_column(payment, &format!("inquiry_at = '{when}'")).await;
    assert_eq!(inquiry_at("2026-01-10T00:01:00Z").await, "true", "the next inquiry is when it may have settled");

    // A report about the capture is recorded.
    let read = payments::inquiry(&shop.db, payment, at(NOW)).await.expect("read").expect("an inquiry is due");
    let status = ChargeStatus::Open { until: Some(at("2026-01-11T00:00:00Z")) };
    record_report(&shop.db, &clock, &read, &report(status)).await.expect("recorded");
    assert_eq!(inquiry_at("2026-01-11T00:00:00Z").await, "true");
}

/// An event may report a dispute while a change is in progress, and nothing else would ask about the charge afterwards.
#[tokio::test]
async fn an_inquiry_that_an_event_asked_for_outlasts_a_change() {
    let merchant_data = MerchantData::default();
    for (capture, change) in
        [(false, Change::Capture(None)), (true, Change::Void), (true, Change::Refund(None, &merchant_data))]
    {
        let shop = Shop::open().await;
        let request = PaymentRequest { capture, ..payment_of(900, token()) };
        let (payment, operation) = shop.begin_payment(&request, at(NOW)).await;
        let executor = Executor::start(shop.db.clone(), shop.providers(), Clock::fixed(at(NOW)));
        perform(&executor, operation).await.expect("performed").expect("it ended");
        if matches!(change, Change::Refund(..)) {
            let settled = "UPDATE payments SET status = 'settled', settled = true, inquiry_at = NULL WHERE id = $1";
            shop.write(settled, payment.uuid()).await;
        }
        let begun = change_payment(&shop.db, &shop.caller, payment, change, &Origin::default(), at(NOW)).await;
        let begun = begun.expect("begun");
        let charge = shop.payment_column(payment, "provider_ref").await;
        let account = shop.caller.provider_account_id;
        payments::inquire_soon(&shop.db, account, &charge, at(NOW)).await.expect("asked");
        perform(&executor, begun.operation).await.expect("performed").expect("it ended");
        let is_due = format!("inquiry_at = '{NOW}'");
        assert_eq!(shop.payment_column(payment, &is_due).await, "true", "{change:?}");
    }
}

/// The refusal of an earlier request says nothing about the request of the latest claim. After the end of the charge, it says
/// nothing at all.
#[tokio::test]
async fn a_refusal_from_an_earlier_claim_is_superseded_until_the_charge_ends_and_late_afterwards() {
    let shop = Shop::open().await;
    let (payment, operation) = shop.begin_payment(&payment_of(900, token()), at(NOW)).await;
    let claims = Batches::start(shop.db.clone(), Clock::fixed(at(NOW)));
    let first = claims.claim(operation).await.expect("claimed").expect("not held");
    let expire = "UPDATE operations SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1";
    shop.write(expire, operation.uuid()).await;
    let second = claims.claim(operation).await.expect("claimed").expect("not held");
    let refused = ProviderResponse::refused("busy");
    assert_eq!(shop.record(&first, &refused).await, Recorded::Superseded);
    let charged = ProviderResponse::Charged { provider_ref: "charge".into(), amount: 900, card: None };
    assert!(matches!(shop.record(&second, &charged).await, Recorded::Written { held: true, .. }));
    assert_eq!(shop.record(&first, &refused).await, Recorded::Late);
    assert_eq!(shop.payment_column(payment, "status").await, "pending_settlement");
    assert_eq!(shop.payment_column(payment, "SELECT count(*) FROM charge_anomalies").await, "0");
}

/// Whatever words a provider uses: the cardholder has paid what is not owed.
#[tokio::test]
async fn a_charge_whose_void_was_not_executed_is_refunded() {
    for response in [ProviderResponse::refused("settled"), declined()] {
        let shop = Shop::open().await;
        let (payment, operation) = shop.begin_payment(&payment_of(900, token()), at(NOW)).await;
        let claims = Batches::start(shop.db.clone(), Clock::fixed(at(NOW)));
        let claim = async |id: OperationId| claims.claim(id).await.expect("claimed").expect("not held");
        let mismatched = ProviderResponse::Mismatched { provider_ref: "charge".into(), total: 950 };
        shop.record(&claim(operation).await, &mismatched).await;
        let reversal = async |kind: &str| {
            let query = format!("SELECT id::text FROM operations WHERE payment_id = payments.id AND kind = '{kind}'");
            let id: uuid::Uuid = shop.payment_column(payment, &query).await.parse().expect("an operation");
            OperationId::from_uuid(id)
        };
        shop.record(&claim(reversal("reverse").await).await, &response).await;
        let refund = claim(reversal("reverse_by_refund").await).await;
        assert_eq!(refund.provider_account_id, shop.caller.provider_account_id);
        let Action::Refund { charge, money } = &refund.request.action else { panic!("{:?}", refund.request.action) };
        assert_eq!((charge.as_str(), money.minor), ("charge", 950));
    }
}

/// While a test clock is advanced, its account's time stands still: both inquiries are due at the same instant.
#[tokio::test]
async fn an_inquiry_that_is_asked_for_during_another_is_made_after_it() {
    let shop = Shop::open().await;
    let (account, clock) = (shop.caller.account_id, Clock::fixed(at(NOW)));
    let (payment, operation) = shop.begin_payment(&payment_of(900, token()), at(NOW)).await;
    let executor = Executor::start(shop.db.clone(), shop.providers(), clock.clone());
    perform(&executor, operation).await.expect("performed").expect("it ended");
    shop.write("UPDATE payments SET inquiry_at = '2026-01-10T00:00:00Z' WHERE id = $1", payment.uuid()).await;
    let charge = shop.payment_column(payment, "provider_ref").await;
    for (is_asked_for, due_afterwards) in [(true, 1), (false, 0)] {
        let due = payments::due_inquiries(&shop.db, account, at(NOW), InquiryKind::Settlement, 10).await.expect("read");
        assert_eq!(due.len(), 1);
        let read = payments::inquiry(&shop.db, payment, at(NOW)).await.expect("read").expect("an inquiry is due");
        if is_asked_for {
            let provider_account = shop.caller.provider_account_id;
            payments::inquire_soon(&shop.db, provider_account, &charge, at(NOW)).await.expect("asked");
        }
        record_report(&shop.db, &clock, &read, &report(ChargeStatus::Settled)).await.expect("recorded");
        payments::postpone_inquiries(&shop.db, account, &due, at(NOW)).await.expect("postponed");
        let due = payments::due_inquiries(&shop.db, account, at(NOW), InquiryKind::Settlement, 10).await.expect("read");
        assert_eq!(due.len(), due_afterwards, "asked for: {is_asked_for}");
    }
}

#[tokio::test]
async fn reconciliation_leaves_operations_held_by_a_worker() {
    let shop = Shop::open().await;
    let (providers, clock) = (shop.providers(), Clock::fixed(at(NOW)));
    let (payment, operation) = shop.begin_payment(&payment_of(900, token()), at(NOW)).await;
    let batches = Batches::start(shop.db.clone(), clock.clone());
    let claimed = batches.claim(operation).await.expect("claimed").expect("not held");
    let mock = providers.get(ProviderKind::Mock).expect("always configured");
    mock.execute(claimed.request.clone()).await.expect("charged");
    // It was created during an outage, and sent just now.
    let written = "UPDATE operations SET created_at = created_at - interval '1 hour' WHERE id = $1";
    shop.write(written, operation.uuid()).await;
    let read = async || reconcile(&shop.db, &providers, &clock, shop.caller.provider_account_id).await.expect("read");
    read().await;
    assert_eq!(shop.payment_column(payment, "status").await, "processing", "left to the worker");

    // The worker is gone, and the next reading reads the same line again.
    let gone = "UPDATE operations SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1";
    shop.write(gone, operation.uuid()).await;
    read().await;
    assert_eq!(shop.payment_column(payment, "status").await, "pending_settlement");
}
