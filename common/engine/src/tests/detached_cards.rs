//! A card that is detached while its charge waits.

use super::{Shop, at, payment_of};
use crate::{Executor, PaymentSource, perform};
use foundation::clock::Clock;
use foundation::id::{OperationId, PaymentMethodId};
use providers::mock::{Faults, Mock, set_faults};
use providers::{Providers, RecoveryClass};

const NOW: &str = "2026-01-10T00:00:00Z";

impl Shop {
    /// Begins a payment with the customer's card, whose charge has not been sent.
    async fn begin_with_card(&self) -> OperationId {
        let card: uuid::Uuid =
            sqlx::query_scalar("SELECT id FROM payment_methods").fetch_one(&*self.db).await.expect("a card");
        let source = PaymentSource::PaymentMethod(PaymentMethodId::from_uuid(card).to_string());
        let (_, operation) = self.begin_payment(&payment_of(900, source), at(NOW)).await;
        operation
    }

    async fn detach_cards(&self) {
        let detach = "UPDATE payment_methods SET status = 'failed', detached_at = now() WHERE customer_id = $1";
        self.write(detach, self.customer.uuid()).await;
    }

    /// The status of the only payment, or why it failed, and how many requests have reached the provider.
    async fn outcome(&self) -> (String, i64) {
        let query =
            "SELECT coalesce(failure_code, status::text), (SELECT count(*) FROM mock.transactions) FROM payments";
        sqlx::query_as(query).fetch_one(&*self.db).await.expect("a payment")
    }
}

#[tokio::test]
async fn a_charge_that_was_not_sent_ends_when_its_card_was_detached() {
    let shop = Shop::open().await;
    shop.saved_card().await;
    let operation = shop.begin_with_card().await;
    shop.detach_cards().await;
    let providers = Providers::new(Mock::new((*shop.db).clone()), None, None);
    let executor = Executor::start(shop.db.clone(), providers, Clock::fixed(at(NOW)));
    perform(&executor, operation).await.expect("performed").expect("it ended");
    assert_eq!(shop.outcome().await, ("withdrawn".to_owned(), 0));
    let sent = "SELECT count(*) FROM operations WHERE first_sent_at IS NOT NULL";
    assert_eq!(sqlx::query_scalar::<_, i64>(sent).fetch_one(&*shop.db).await.expect("a count"), 0, "shown as sent");
}

/// The request never reached the provider, which can look up requests.
#[tokio::test]
async fn a_charge_of_which_the_provider_knows_nothing_is_not_repeated_with_a_detached_card() {
    for is_detached in [true, false] {
        let shop = Shop::open().await;
        shop.saved_card().await;
        let faults = Faults { recovery: Some(RecoveryClass::Lookup), ..Faults::default() };
        set_faults(&*shop.db, shop.caller.provider_account_id, &faults).await.expect("set");
        let operation = shop.begin_with_card().await;
        let lost = "UPDATE operations SET state = 'unknown', not_found = 1, first_sent_at = now() - interval '1 hour',
                        last_sent_at = now() - interval '1 hour' WHERE id = $1";
        shop.write(lost, operation.uuid()).await;
        if is_detached {
            shop.detach_cards().await;
        } else {
            let known =
                "INSERT INTO mock.cards (id, account, reference, nature) VALUES ('card', $1, 'saved', 'tok_ok')";
            shop.write(known, shop.caller.provider_account_id.uuid()).await;
        }
        let providers = Providers::new(Mock::new((*shop.db).clone()), None, None);
        let executor = Executor::start(shop.db.clone(), providers, Clock::fixed(at(NOW)));
        perform(&executor, operation).await.expect("performed").expect("it ended");
        let expected = if is_detached { ("withdrawn", 0) } else { ("pending_settlement", 1) };
        assert_eq!(shop.outcome().await, (expected.0.to_owned(), expected.1));
    }
}
