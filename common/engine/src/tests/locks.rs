//! Rows that two processes lock concurrently.

use futures_util::future::join;

use super::{Shop, at};
use crate::create_webhook_endpoint;
use domain::accounts::Mode;
use domain::webhooks::dispatch::{self, Attempted, Claimed, Failure};
use domain::webhooks::endpoints::{self, EndpointUrl, NewEndpoint};
use foundation::crypto::{EncryptionKey, KeyRing};

const NOW: &str = "2026-01-10T00:00:00Z";
const DELIVERIES: i64 = 500;
const ROUNDS: usize = 12;

impl Shop {
    async fn take_deliveries(&self, endpoint: foundation::id::WebhookEndpointId) -> Vec<Claimed> {
        let ended =
            "UPDATE webhook_pending SET lease_until = NULL, due_at = now() - interval '1 second' WHERE account_id = $1";
        self.write(ended, self.caller.account_id.uuid()).await;
        dispatch::claim(&self.db, &[(endpoint, DELIVERIES)]).await.expect("claimed")
    }
}

fn attempted(claimed: Vec<Claimed>, fails: impl Fn(usize) -> bool) -> Vec<Attempted> {
    let attempts = claimed.into_iter().enumerate().map(|(number, claimed)| {
        let mut attempt = Attempted::new(claimed, at(NOW));
        match fails(number) {
            true => attempt.fail(Failure::Connect, "connection refused".into()),
            false => attempt.record_response(200, b"", None),
        }
        attempt
    });
    attempts.collect()
}

/// The first worker's lease has expired, and both workers record the same deliveries: in different order, and with
/// different results.
#[tokio::test]
async fn workers_recording_the_same_deliveries_do_not_deadlock() {
    let shop = Shop::open().await;
    let url = EndpointUrl::parse("http://127.0.0.1:9/".into(), endpoints::policy(Mode::Test, true)).expect("a URL");
    let new = NewEndpoint { url, enabled_events: vec![], metadata: None };
    let key = KeyRing::new(EncryptionKey::from_hex(&"00".repeat(32)).expect("a key"), vec![]);
    let created = create_webhook_endpoint(&shop.db, &key, &shop.caller, new, None, at(NOW))
        .await
        .expect("an endpoint")
        .into_new();
    let endpoint = created.endpoint.id;
    for round in 0..ROUNDS {
        let emit =
            "SELECT emit_event(new_ulid(now()), $1, 'customer.created', '{}', now()) FROM generate_series(1, 500)";
        shop.write(emit, shop.caller.account_id.uuid()).await;
        let first = attempted(shop.take_deliveries(endpoint).await, |number| number % 2 == 0);
        let mut later = shop.take_deliveries(endpoint).await;
        later.reverse();
        let later = attempted(later, |number| number % 3 == 0);
        assert_eq!((first.len(), later.len()), (500, 500));
        let (first, later) =
            join(dispatch::record(&shop.db, &first, at(NOW)), dispatch::record(&shop.db, &later, at(NOW))).await;
        let locked =
            [first, later].map(|recorded| recorded.unwrap_or_else(|error| panic!("round {round}: {error}")).len());
        // What one worker has found locked, the other one has recorded.
        assert!(locked[0] + locked[1] <= 500, "round {round}: {locked:?}");
        shop.write("DELETE FROM webhook_pending WHERE account_id = $1", shop.caller.account_id.uuid()).await;
    }
}
