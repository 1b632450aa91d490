//! Statements that execute several items: each item gets the result that it would get alone.

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tokio::time::timeout;

use super::{Shop, at, failed, payment_of, token};
use crate::charge::outcome::charge::apply_response;
use crate::{
    Change, Executor, Intents, PaymentRequest, PaymentSource, TakenPayment, change_payment, collect_due_invoices,
    perform, register_billing_metrics,
};
use domain::accounts::Scope;
use domain::charges::{self, Batches, Claimed, EndedCharge, SWEEP_BATCH};
use domain::idempotency::IdempotencyKey;
use domain::operations::Origin;
use domain::payments;
use domain::plans::Interval;
use foundation::clock::Clock;
use foundation::error::{Error, Result};
use foundation::id::{OperationId, PaymentId, PaymentMethodId};
use foundation::merchant_data::MerchantData;
use providers::{ProviderResponse, Providers, mock::Mock};

const NOW: &str = "2026-01-10T00:00:00Z";

impl Shop {
    async fn take(&self, intents: &Intents, amount: i64, key: Option<&str>) -> Result<TakenPayment> {
        self.take_from(intents, token(), amount, key).await
    }

    async fn take_from(
        &self,
        intents: &Intents,
        source: PaymentSource,
        amount: i64,
        key: Option<&str>,
    ) -> Result<TakenPayment> {
        let parse = |key: &str| IdempotencyKey::parse(key.as_bytes(), &json!({ "amount": amount })).expect("a key");
        let request = PaymentRequest { idempotency_key: key.map(parse), ..payment_of(amount, source) };
        self.take_payment(intents, &request, at(NOW)).await
    }

    pub(super) async fn begin(&self) -> (PaymentId, OperationId) {
        self.begin_payment(&payment_of(900, token()), at(NOW)).await
    }

    fn batches(&self) -> Batches {
        Batches::start(self.db.clone(), Clock::fixed(at(NOW)))
    }

    /// A charge that a worker has claimed, and its outcome: approved with this reference.
    async fn ended(&self, batches: &Batches, provider_ref: &str) -> (OperationId, EndedCharge) {
        let (payment, operation) = self.begin().await;
        let claimed = batches.claim(operation).await.expect("claimed").expect("not held");
        (operation, self.approved(&claimed, payment, provider_ref).await)
    }

    /// The outcome of a charge that is approved with this reference.
    async fn approved(&self, claimed: &Claimed, payment: PaymentId, provider_ref: &str) -> EndedCharge {
        let response = ProviderResponse::Charged { provider_ref: provider_ref.into(), amount: 900, card: None };
        let mut payment = payments::retrieve(&self.db, self.caller.account_id, payment).await.expect("a payment");
        apply_response(&mut payment, claimed, &response, at(NOW)).expect("approved");
        EndedCharge::new(claimed.id, payment, &response, at(NOW)).expect("an outcome")
    }

    pub(super) fn executor(&self) -> Executor {
        let providers = Providers::new(Mock::new((*self.db).clone()), None, None);
        Executor::start(self.db.clone(), providers, Clock::fixed(at(NOW)))
    }

    /// Begins a refund of a part.
    pub(super) async fn refund(&self, payment: PaymentId) -> OperationId {
        let merchant_data = MerchantData::default();
        let change = Change::Refund(Some(100), &merchant_data);
        let refund = change_payment(&self.db, &self.caller, payment, change, &Origin::default(), at(NOW)).await;
        refund.expect("accepted").operation
    }

    pub(super) async fn count(&self, what: &str) -> i64 {
        let query = format!("SELECT count(*) FROM {what}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(query)).fetch_one(&*self.db).await.expect("a count")
    }
}

#[tokio::test]
async fn of_two_outcomes_of_a_payment_the_first_is_written_and_the_second_is_stale() {
    let shop = Shop::open().await;
    let (batches, (payment, operation)) = (shop.batches(), shop.begin().await);
    let claimed = batches.claim(operation).await.expect("claimed").expect("not held");
    let (first, second) =
        (shop.approved(&claimed, payment, "first").await, shop.approved(&claimed, payment, "second").await);
    let (first, second) = tokio::join!(batches.write(first), batches.write(second));
    assert_eq!((first.expect("written"), second.expect("refused")), (true, false));
    assert_eq!(shop.count("payments WHERE provider_ref = 'first'").await, 1);
    assert_eq!(shop.count("operations WHERE provider_ref = 'first'").await, 1);
    assert_eq!(shop.count("events WHERE type = 'payment.captured'").await, 1, "one event");
}

#[tokio::test]
async fn an_outcome_is_written_although_another_of_its_batch_cannot_be() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let mut charges = Vec::new();
    for reference in ["free", "locked", "ended"] {
        let (_, charge) = shop.ended(&batches, reference).await;
        charges.push((charge.payment.id, charge));
    }
    let mut locking = shop.db.begin().await.expect("a transaction");
    payments::lock(&mut locking, shop.caller.account_id, charges[1].0).await.expect("locked");
    let end = "UPDATE payments SET status = 'failed', failure_code = 'provider_refused' WHERE id = $1";
    shop.write(end, charges[2].0.uuid()).await;
    let mut writes = charges.into_iter().map(|(_, charge)| batches.write(charge));
    let (free, locked, ended) = (writes.next().unwrap(), writes.next().unwrap(), writes.next().unwrap());
    let (free, locked, ended) = tokio::join!(free, locked, ended);
    assert_eq!([free, locked, ended].map(|written| written.expect("no error")), [true, false, false]);
    assert_eq!(shop.count("payments WHERE provider_ref IS NOT NULL").await, 1);
    assert_eq!(shop.count("events WHERE type = 'payment.captured'").await, 1);
}

#[tokio::test]
async fn a_key_creates_one_payment_although_a_batch_has_it_twice_and_another_key_was_used_before() {
    let shop = Shop::open().await;
    let intents = Intents::start((*shop.db).clone());
    let TakenPayment::New(earlier, _) = shop.take(&intents, 900, Some("used")).await.expect("a payment") else {
        panic!("the key is new")
    };
    let (one, other, used, without) = tokio::join!(
        shop.take(&intents, 900, Some("twice")),
        shop.take(&intents, 900, Some("twice")),
        shop.take(&intents, 900, Some("used")),
        shop.take(&intents, 900, None),
    );
    let TakenPayment::New(one, _) = one.expect("taken") else { panic!("the first of its key") };
    assert!(matches!(other.expect("taken"), TakenPayment::Earlier(id) if id == one.id));
    assert!(matches!(used.expect("taken"), TakenPayment::Earlier(id) if id == earlier.id));
    assert!(matches!(without.expect("taken"), TakenPayment::New(..)));
    assert_eq!((shop.count("payments").await, shop.count("operations").await), (3, 3));
    let refused = shop.take(&intents, 901, Some("used")).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("another body")));
}

#[tokio::test]
async fn refused_payments_by_saved_card_do_not_fail_the_others() {
    let shop = Shop::open().await;
    shop.saved_card().await;
    let card: String =
        sqlx::query_scalar("SELECT id::text FROM payment_methods").fetch_one(&*shop.db).await.expect("it");
    let card = PaymentMethodId::from_uuid(card.parse().expect("a UUID")).to_string();
    let unknown = PaymentMethodId::new(at(NOW)).to_string();
    let intents = Intents::start((*shop.db).clone());
    let take = |card: &str, key| shop.take_from(&intents, PaymentSource::PaymentMethod(card.to_owned()), 900, key);
    let (one, again, other, refused) = tokio::join!(
        take(&card, Some("one")),
        take(&card, Some("one")),
        take(&card, Some("other")),
        take(&unknown, Some("refused"))
    );
    // Each looks up the card first, so either may be the first of its key.
    let (one, earlier) = match (one.expect("taken"), again.expect("taken")) {
        (TakenPayment::New(one, _), TakenPayment::Earlier(earlier))
        | (TakenPayment::Earlier(earlier), TakenPayment::New(one, _)) => (one, earlier),
        (TakenPayment::New(..), TakenPayment::New(..)) => panic!("two payments with one key"),
        (TakenPayment::Earlier(_), TakenPayment::Earlier(_)) => panic!("no payment with this key"),
    };
    assert_eq!(earlier, one.id);
    assert!(matches!(other.expect("taken"), TakenPayment::New(..)));
    assert!(matches!(refused, Err(Error::NotFound(_))));
    let charged = "operations o JOIN payments p ON p.id = o.payment_id
                   WHERE o.card_ref = 'card' AND p.card_last4 = '4242' AND p.customer_id IS NOT NULL";
    assert_eq!(shop.count(charged).await, 2);
    assert_eq!(shop.count("idempotency_keys").await, 2, "a refused request uses up no key");

    let disable = "UPDATE payment_methods SET status = 'failed', provider_ref = NULL WHERE account_id = $1";
    shop.write(disable, shop.caller.account_id.uuid()).await;
    assert!(matches!(take(&card, Some("one")).await, Ok(TakenPayment::Earlier(id)) if id == one.id));
    assert!(matches!(take(&card, Some("third")).await, Err(Error::Invalid { .. })));
}

#[tokio::test]
async fn invoices_that_cannot_be_read_stay_due_and_do_not_stop_the_collection_of_others() {
    let shop = Shop::open().await;
    shop.saved_card().await;
    for _ in 0..4 {
        shop.subscribed(Interval::Year, "2026-01-02", "2026-01-01T00:00:00Z").await;
    }
    assert_eq!(shop.run("2026-01-02T00:00:00Z").await, 4);
    let change = async |set: &str| {
        let some = "(SELECT id FROM invoices WHERE account_id = $1 ORDER BY id LIMIT 2)";
        shop.write(&format!("UPDATE invoices SET {set} WHERE id IN {some}"), shop.caller.account_id.uuid()).await;
    };
    change("metadata = '{\"order\": 1042}'").await;
    change("next_attempt_at = next_attempt_at - interval '1 second'").await;
    let collect = async |now: &str| {
        let run = collect_due_invoices(&shop.db, Scope::AllAccounts(at(now)), 2, &Origin::default()).await;
        let run = run.expect("a run");
        (run.due, run.begun.len(), run.unsent)
    };
    assert_eq!(collect("2026-01-02T09:00:00Z").await, (2, 0, 0), "a batch of them only");
    assert_eq!(collect("2026-01-02T09:00:00Z").await, (2, 2, 0), "the others");
    assert_eq!(collect("2026-01-02T09:09:59Z").await, (0, 0, 0));
    assert_eq!(collect("2026-01-02T09:10:00Z").await, (2, 0, 0), "another release may read them");

    // Without a card, more of an invoice is read.
    shop.write("UPDATE customers SET default_payment_method_id = NULL WHERE id = $1", shop.customer.uuid()).await;
    change("metadata = NULL, items = '[1]'").await;
    assert_eq!(collect("2026-01-02T10:00:00Z").await, (2, 0, 0));
    assert_eq!(collect("2026-01-02T10:00:00Z").await, (0, 0, 0));
}

/// Such as that of an account whose time zone this machine does not know.
#[tokio::test]
async fn invoices_whose_failure_cannot_be_recorded_do_not_stop_the_collection_of_others() {
    let shop = Shop::open().await;
    let account = shop.caller.account_id.uuid();
    shop.saved_card().await;
    for _ in 0..3 {
        shop.subscribed(Interval::Year, "2026-01-02", "2026-01-01T00:00:00Z").await;
    }
    assert_eq!(shop.run("2026-01-02T00:00:00Z").await, 3);
    // One names its card. The others have none, and are due first.
    let name =
        "UPDATE invoices SET next_attempt_at = next_attempt_at + interval '1 second', collect_payment_method_id =
                    (SELECT id FROM payment_methods WHERE account_id = $1)
                WHERE id = (SELECT id FROM invoices WHERE account_id = $1 ORDER BY id LIMIT 1)";
    shop.write(name, account).await;
    shop.write("UPDATE customers SET default_payment_method_id = NULL WHERE account_id = $1", account).await;
    shop.write("UPDATE accounts SET timezone = 'Nowhere/Unknown' WHERE id = $1", account).await;
    let collect = async |now: &str| {
        let run = collect_due_invoices(&shop.db, Scope::AllAccounts(at(now)), 2, &Origin::default()).await;
        let run = run.expect("a run");
        (run.due, run.begun.len(), run.unsent)
    };
    assert_eq!(collect("2026-01-02T09:00:01Z").await, (2, 0, 0), "a batch of them only");
    assert_eq!(collect("2026-01-02T09:00:01Z").await, (1, 1, 0), "the other");
    assert_eq!(collect("2026-01-02T09:10:00Z").await, (0, 0, 0));
    shop.write("UPDATE accounts SET timezone = 'UTC' WHERE id = $1", account).await;
    assert_eq!(collect("2026-01-02T09:10:01Z").await, (2, 0, 2), "their failures are recorded then");
}

#[tokio::test]
async fn an_invoice_whose_collection_is_rejected_is_postponed_and_the_others_of_its_batch_are_collected() {
    const INVOICES: usize = 50;
    let (shop, recorder) = (Shop::open().await, PrometheusBuilder::new().build_recorder());
    let _counting = metrics::set_default_local_recorder(&recorder);
    register_billing_metrics();
    let failures = || failed(&recorder, "collections");
    assert_eq!(failures().as_deref(), Some("0"));
    shop.saved_card().await;
    for _ in 0..INVOICES {
        shop.subscribed(Interval::Year, "2026-01-02", "2026-01-01T00:00:00Z").await;
    }
    shop.run("2026-01-02T00:00:00Z").await;
    let change = "UPDATE invoices SET amount = 2901 WHERE id = (SELECT id FROM invoices WHERE account_id = $1 LIMIT 1)";
    shop.write(change, shop.caller.account_id.uuid()).await;
    let execute = async |statement: &'static str| {
        sqlx::query(statement).execute(&*shop.db).await.expect(statement);
    };
    execute("ALTER TABLE collection_attempts ADD CONSTRAINT refused CHECK (amount <> 2901)").await;
    let collect = async |now: &str| {
        let run = collect_due_invoices(&shop.db, Scope::AllAccounts(at(now)), 100, &Origin::default()).await;
        let run = run.expect("a run");
        (run.due, run.begun.len(), run.unsent)
    };
    assert_eq!(collect("2026-01-02T09:00:00Z").await, (INVOICES, INVOICES - 1, 0));
    for table in ["payments", "operations WHERE state = 'ready'", "collection_attempts WHERE number = 1"] {
        assert_eq!(shop.count(table).await, 49, "{table}");
    }
    assert_eq!(shop.count("invoices WHERE next_attempt_at IS NULL AND attempt_count = 1").await, 49);
    assert_eq!(collect("2026-01-02T09:00:00Z").await, (0, 0, 0), "it is in the way of no other");
    assert_eq!(failures().as_deref(), Some("1"));
    assert_eq!(collect("2026-01-02T09:10:00Z").await, (1, 0, 0), "it is tried again");
    assert_eq!(failures().as_deref(), Some("2"));
    execute("ALTER TABLE collection_attempts DROP CONSTRAINT refused").await;
    assert_eq!(collect("2026-01-02T09:20:00Z").await, (1, 1, 0));
    // Nobody has pushed the operations, as after a crash: they are handed out when they are due.
    execute("UPDATE operations SET next_push_at = clock_timestamp() - interval '1 second'").await;
    let due = charges::take_due(&shop.db, None, Duration::ZERO, SWEEP_BATCH).await.expect("read");
    assert_eq!(due.len(), INVOICES);
}

#[tokio::test]
async fn one_of_two_claims_of_an_operation_succeeds() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let ((_, one), (_, other)) = (shop.begin().await, shop.begin().await);
    let claimed = tokio::join!(batches.claim(one), batches.claim(one), batches.claim(other));
    let claimed = [claimed.0, claimed.1, claimed.2].map(|claimed| claimed.expect("no error").is_some());
    assert_eq!(claimed, [true, false, true]);
}

#[tokio::test]
async fn a_claim_returns_the_payment_that_it_charges_while_it_awaits_an_outcome() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let (payment, operation) = shop.begin().await;
    let fill = "UPDATE payments SET status = 'requires_action', action_token = 'token', challenge_url = 'https://bank.example',
                    amount_base = 700, amount_surcharge = 50, amount_tax = 90, amount_tip = 60, card_brand = 'visa',
                    card_last4 = '4242', card_exp_month = 12, card_exp_year = 2034, inquiry_at = created_at,
                    metadata = '{\"a\": \"b\"}', external_id = 'order', description = 'Tea'
                WHERE id = $1";
    shop.write(fill, payment.uuid()).await;
    let read = payments::retrieve(&shop.db, shop.caller.account_id, payment).await.expect("a payment");
    let claimed = batches.claim(operation).await.expect("claimed").expect("not held");
    assert_eq!(format!("{:?}", claimed.payment), format!("{:?}", Some(read)), "all columns");

    let end = "UPDATE payments SET status = 'failed', failure_code = 'provider_refused' WHERE id = $1";
    shop.write(end, payment.uuid()).await;
    shop.write("UPDATE operations SET lease_until = NULL WHERE id = $1", operation.uuid()).await;
    let claimed = batches.claim(operation).await.expect("claimed").expect("not held");
    assert!(claimed.payment.is_none(), "it has ended");
}

#[tokio::test]
async fn claims_of_a_batch_succeed_although_a_payment_of_one_cannot_be_read() {
    let shop = Shop::open().await;
    let (batches, (unreadable, one), (_, other)) = (shop.batches(), shop.begin().await, shop.begin().await);
    // As another release may write it.
    shop.write("UPDATE payments SET metadata = '{\"order\": 1042}' WHERE id = $1", unreadable.uuid()).await;
    let (one, other) = tokio::join!(batches.claim(one), batches.claim(other));
    let (one, other) = (one.expect("claimed").expect("not held"), other.expect("claimed").expect("not held"));
    assert!(one.payment.is_none() && other.payment.is_some());
}

#[tokio::test]
async fn refunds_of_a_payment_are_claimed_one_after_the_other_without_rejecting_a_batch() {
    let shop = Shop::open().await;
    let (payment, sale) = shop.begin().await;
    perform(&shop.executor(), sale).await.expect("performed").expect("it ended");
    let mut refunds = [shop.refund(payment).await, shop.refund(payment).await];
    // The one with the lower id is first.
    refunds.sort();
    let ((_, other), batches) = (shop.begin().await, shop.batches());
    let claimed = tokio::join!(batches.claim(refunds[0]), batches.claim(refunds[1]), batches.claim(other));
    let claimed = [claimed.0, claimed.1, claimed.2].map(|claimed| claimed.expect("no error").is_some());
    assert_eq!(claimed, [true, false, true]);
    assert!(batches.claim(refunds[1]).await.expect("no error").is_none(), "the other refund is in progress");

    // A refund that is ready does not hold up the recovery of a later one.
    let swap = "UPDATE operations SET lease_until = NULL, state = CASE WHEN id = $1 THEN 'ready' ELSE 'unknown' END::operation_state
                WHERE kind = 'refund'";
    shop.write("UPDATE operations SET state = 'ready', lease_until = NULL WHERE id = $1", refunds[0].uuid()).await;
    shop.write(swap, refunds[0].uuid()).await;
    let claimed = tokio::join!(batches.claim(refunds[0]), batches.claim(refunds[1]));
    assert_eq!([claimed.0, claimed.1].map(|claimed| claimed.expect("no error").is_some()), [false, true]);
    // One transaction has written both claims.
    assert_eq!(shop.count("(SELECT DISTINCT xmin::text FROM operations WHERE state = 'sending') AS claims").await, 1);
}

#[tokio::test]
async fn a_claim_and_an_outcome_that_wait_at_the_same_moment_share_a_transaction() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let (_, ended) = shop.ended(&batches, "ended").await;
    let (_, next) = shop.begin().await;
    let (written, claimed) = tokio::join!(batches.write(ended), batches.claim(next));
    assert!(written.expect("no error") && claimed.expect("no error").is_some());
    assert_eq!(shop.count("(SELECT DISTINCT xmin::text FROM operations) AS writes").await, 1);
    assert_eq!(shop.count("events WHERE type = 'payment.captured'").await, 1);
}

#[tokio::test]
async fn an_operation_whose_outcome_is_written_is_not_claimed_in_the_same_transaction() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let (operation, ended) = shop.ended(&batches, "ended").await;
    // Its worker took longer than the lease, and another wake-up arrives.
    let expire = "UPDATE operations SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1";
    shop.write(expire, operation.uuid()).await;
    let (written, claimed) = tokio::join!(batches.write(ended), batches.claim(operation));
    assert!(written.expect("no error") && claimed.expect("no error").is_none());
    assert_eq!(shop.count("operations WHERE state = 'succeeded' AND fence = 1 AND lease_until IS NULL").await, 1);
}

#[tokio::test]
async fn refunds_are_claimed_outside_the_transaction_of_outcomes() {
    let shop = Shop::open().await;
    let (payment, sale) = shop.begin().await;
    perform(&shop.executor(), sale).await.expect("performed").expect("it ended");
    let (one, other) = (shop.refund(payment).await, shop.refund(payment).await);
    let batches = shop.batches();
    let (_, ended) = shop.ended(&batches, "ended").await;
    let (_, next) = shop.begin().await;
    let (written, next, one, other) =
        tokio::join!(batches.write(ended), batches.claim(next), batches.claim(one), batches.claim(other));
    assert!(written.expect("no error") && next.expect("no error").is_some());
    let refunds = [one, other].map(|claimed| claimed.expect("no error").is_some());
    assert_eq!(refunds.iter().filter(|is_claimed| **is_claimed).count(), 1, "one after the other");
    let shared =
        "(SELECT DISTINCT xmin::text FROM operations WHERE provider_ref = 'ended' OR state = 'sending') AS writes";
    assert_eq!(shop.count(shared).await, 2);
}

#[tokio::test]
async fn an_outcome_that_is_rejected_does_not_fail_the_claims_and_outcomes_of_its_transaction() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let (_, first) = shop.ended(&batches, "same").await;
    let (_, second) = shop.ended(&batches, "same").await;
    let (_, next) = shop.begin().await;
    let (first, second, claimed) = tokio::join!(batches.write(first), batches.write(second), batches.claim(next));
    assert!(first.expect("written") && claimed.expect("no error").is_some());
    assert!(second.is_err_and(|error| error.to_string().contains("payments_provider_ref")));
    assert_eq!(shop.count("operations WHERE fence = 1 AND lease_until > clock_timestamp()").await, 2);
}

#[tokio::test]
async fn an_outcome_that_waits_for_a_lock_holds_up_no_claim() {
    let shop = Shop::open().await;
    let batches = shop.batches();
    let (locked, with_claim) = shop.ended(&batches, "with a claim").await;
    let (_, beside) = shop.ended(&batches, "beside it").await;
    let (other, alone) = shop.ended(&batches, "alone").await;
    let (_, next) = shop.begin().await;
    let mut locking = shop.db.begin().await.expect("a transaction");
    let lock = "SELECT FROM operations WHERE id = ANY ($1) FOR UPDATE";
    sqlx::query(lock).bind(vec![locked.uuid(), other.uuid()]).execute(&mut *locking).await.expect("locked");
    let (with_claim, beside, claimed) = without_long_wait(async {
        tokio::join!(batches.write(with_claim), batches.write(beside), batches.claim(next))
    })
    .await;
    assert!(claimed.expect("no error").is_some());
    // Their workers continue with a transaction.
    assert_eq!([with_claim, beside].map(|written| written.expect("no error")), [false, false]);
    assert!(!without_long_wait(batches.write(alone)).await.expect("no error"));
    assert_eq!(shop.count("payments WHERE provider_ref IS NOT NULL").await, 0);
}

/// Less than the `lock_timeout` of the connections.
async fn without_long_wait<T>(waiting: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(8), waiting).await.expect("it waits for the lock")
}
