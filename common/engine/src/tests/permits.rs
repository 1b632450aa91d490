//! Transactions of outcomes, which wait for permits so that they leave connections to other work.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::{Shop, at};
use crate::{Executor, perform};
use foundation::clock::Clock;
use foundation::crypto::Secret;
use foundation::db::{self, Db};
use providers::Providers;
use providers::mock::{Faults, Mock, set_faults};

const NOW: &str = "2026-01-10T00:00:00Z";

impl Shop {
    /// A worker with four connections: two for outcomes, one of them for those of an account.
    fn small_executor(&self) -> Executor {
        let url = Secret::new(self._database.url().to_owned());
        let db = Db::without_queue(db::pool(&url, 4, "worker").expect("a valid URL"));
        let providers = Providers::new(Mock::new((*self.db).clone()), None, None);
        Executor::start(db, providers, Clock::fixed(at(NOW)))
    }
}

/// Eight outcomes of an account whose payments are locked.
#[tokio::test]
async fn outcomes_that_wait_for_locks_leave_connections_to_claims() {
    let shop = Shop::open().await;
    let (other, executor) = (shop.another().await, shop.small_executor());
    let (payment, sale) = other.begin().await;
    perform(&other.executor(), sale).await.expect("performed").expect("it ended");
    let refund = other.refund(payment).await;
    let (mut payments, mut operations) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let (payment, operation) = shop.begin().await;
        payments.push(payment.uuid());
        operations.push(operation);
    }
    let (_, next) = shop.begin().await;
    let mut locking = shop.db.begin().await.expect("a transaction");
    let lock = "SELECT FROM payments WHERE id = ANY ($1) FOR NO KEY UPDATE";
    sqlx::query(lock).bind(payments).execute(&mut *locking).await.expect("locked");
    let outcomes = join_all(operations.into_iter().map(|operation| perform(&executor, operation)));
    let others = async {
        sleep(Duration::from_secs(3)).await;
        let claimed = timeout(Duration::from_secs(5), executor.batches.claim(next)).await;
        (claimed, timeout(Duration::from_secs(5), perform(&executor, refund)).await)
    };
    let (claimed, refunded) = tokio::select! {
        ended = outcomes => panic!("they do not wait for the locks: {ended:?}"),
        others = others => others,
    };
    assert!(claimed.expect("a connection").expect("no error").is_some());
    assert!(refunded.expect("a permit for the other account").expect("no error").is_some());
    assert_eq!(shop.count("operations WHERE state = 'sending'").await, 9);
}

/// The permit of the account is in use for longer than an operation waits for it.
#[tokio::test]
async fn an_unknown_outcome_that_gets_no_permit_in_time_is_recorded_later() {
    let shop = Shop::open().await;
    let executor = shop.small_executor();
    let (payment, sale) = shop.begin().await;
    perform(&executor, sale).await.expect("performed").expect("it ended");
    let faults = Faults { lose_responses: Some(1), ..Faults::default() };
    set_faults(&*shop.db, shop.caller.provider_account_id, &faults).await.expect("set");
    let (refund, (_, another)) = (shop.refund(payment).await, shop.begin().await);
    let claimed = executor.batches.claim(another).await.expect("claimed").expect("not held");
    let permit = executor.permit(&claimed).await.expect("a permit");
    let release = async {
        sleep(Duration::from_secs(11)).await;
        drop(permit);
    };
    let (performed, ()) = tokio::join!(perform(&executor, refund), release);
    assert!(performed.expect("no error").is_none());
    assert_eq!(shop.count("operations WHERE kind = 'refund' AND state = 'unknown' AND lease_until IS NULL").await, 1);
    assert_eq!(shop.count("payments WHERE pending_operation = 'refund'").await, 1);
}
