//! Due work and a concurrent beginning of an advance of its account's clock: either comes first completely.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, join};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::time::{sleep, timeout};

use super::{Shop, at, rent};
use crate::collect_due_invoices;
use crate::create_payment_link;
use crate::create_recurring_invoice;
use crate::run_due_recurring_invoices;
use crate::run_due_subscriptions;
use domain::accounts::Scope;
use domain::operations::Origin;
use domain::payment_links::{NewPaymentLink, run_due_payment_links};
use domain::plans::Interval;
use domain::test_clocks;
use foundation::calendar::Unit;
use foundation::db::Db;
use foundation::merchant_data::MerchantData;
use foundation::money::Money;

const MADE: &str = "2026-01-01T00:00:00Z";
/// When one item is due.
const DUE: &str = "2026-01-02T09:00:00Z";

/// A kind of due work.
struct WorkKind {
    name: &'static str,
    prepare: for<'a> fn(&'a Shop) -> BoxFuture<'a, ()>,
    run: fn(&Db, Scope) -> BoxFuture<'_, usize>,
    /// A table that is written after the claim in its transaction, and not before.
    writes: &'static str,
    /// Counts the results of the work.
    done: &'static str,
}

const KINDS: [WorkKind; 5] = [
    WorkKind {
        name: "a recurring invoice",
        prepare: |shop| recurring_invoice(shop).boxed(),
        run: |db, scope| async move { run_due_recurring_invoices(db, scope, 10).await.expect("a run") }.boxed(),
        writes: "invoices",
        done: "SELECT count(*) FROM invoices WHERE recurring_invoice_id IS NOT NULL",
    },
    WorkKind {
        name: "a subscription",
        prepare: |shop| async { drop(shop.subscribed(Interval::Day, "2026-01-02", MADE).await) }.boxed(),
        run: |db, scope| async move { run_due_subscriptions(db, scope, 10).await.expect("a run") }.boxed(),
        writes: "invoices",
        done: "SELECT count(*) FROM invoices WHERE subscription_id IS NOT NULL",
    },
    WorkKind {
        name: "a collection",
        prepare: |shop| {
            async {
                invoice_due(shop).await;
                shop.saved_card().await;
            }
            .boxed()
        },
        run: |db, scope| collect(db, scope).boxed(),
        writes: "payments",
        done: "SELECT count(*) FROM operations WHERE kind = 'sale' AND next_push_at IS NOT NULL",
    },
    WorkKind {
        name: "a collection without a card",
        prepare: |shop| invoice_due(shop).boxed(),
        run: |db, scope| collect(db, scope).boxed(),
        writes: "events",
        done: "SELECT count(*) FROM collection_attempts WHERE status = 'failed'",
    },
    WorkKind {
        name: "a payment link",
        prepare: |shop| link(shop).boxed(),
        run: |db, scope| async move { run_due_payment_links(db, scope, 10).await.expect("a run") }.boxed(),
        writes: "payment_links",
        done: "SELECT count(*) FROM payment_links WHERE status = 'expired'",
    },
];

async fn recurring_invoice(shop: &Shop) {
    let new = rent(shop.customer, Unit::Day, Some("2026-01-02"));
    create_recurring_invoice(&shop.db, &shop.caller, new, None, at(MADE)).await.expect("created").into_new();
}

/// Creates a subscription invoice that is due for collection.
async fn invoice_due(shop: &Shop) {
    shop.subscribed(Interval::Year, "2026-01-02", MADE).await;
    assert_eq!(shop.run("2026-01-02T00:00:00Z").await, 1);
}

async fn link(shop: &Shop) {
    let money = Money { minor: 500, currency: "USD".parse().expect("a currency") };
    let expires_at = Some(at("2026-01-02T00:00:00Z"));
    let new = NewPaymentLink { money, description: None, expires_at, merchant_data: MerchantData::default() };
    create_payment_link(&shop.db, &shop.caller, new, None, at(MADE)).await.expect("a link").into_new();
}

async fn collect(db: &Db, scope: Scope) -> usize {
    let run = collect_due_invoices(db, scope, 10, &Origin::default()).await.expect("a run");
    run.begun.len() + run.unsent
}

async fn count(db: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(db).await.expect(query)
}

/// Returns once this many sessions of this database wait for a lock.
async fn waiting(db: &PgPool, expected: i64) {
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let polling = async {
        while count(db, waiting).await < expected {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), polling).await.expect("the sessions wait for a lock");
}

#[tokio::test]
async fn advances_wait_for_due_work_that_has_begun() {
    for kind in &KINDS {
        for (everyone, has_clock) in [(true, true), (false, true), (true, false)] {
            let name = format!("{}, everyone: {everyone}, has a clock: {has_clock}", kind.name);
            let shop = Shop::open().await;
            let (db, account) = (&shop.db, shop.caller.account_id);
            (kind.prepare)(&shop).await;
            if has_clock {
                shop.write("INSERT INTO test_clocks (account_id) VALUES ($1)", account.uuid()).await;
            }
            assert_eq!(count(db, kind.done).await, 0, "{name}");

            // The work is claimed, and its first write is blocked.
            let mut blocker = db.begin().await.expect("a transaction");
            let lock = format!("LOCK TABLE {} IN SHARE MODE", kind.writes);
            sqlx::query(AssertSqlSafe(lock)).execute(&mut *blocker).await.expect("locked");
            let scope = if everyone { Scope::AllAccounts(at(DUE)) } else { Scope::Account(account, at(DUE)) };
            let run = (kind.run)(db, scope);
            let unblock = async {
                waiting(db, 2).await;
                blocker.commit().await.expect("ended");
            };
            let advance = async {
                waiting(db, 1).await;
                let begin = async {
                    if !has_clock {
                        test_clocks::create(db, account, std::time::Duration::ZERO).await.expect("created");
                    }
                    test_clocks::begin(db, account, at("2026-03-01T00:00:00Z"), at(DUE)).await
                };
                let (clock, ()) = join!(begin, unblock);
                assert!(clock.expect("begun").target.is_some(), "{name}");
                count(db, kind.done).await
            };
            let (ran, found) = join!(run, advance);
            assert_eq!(found, 1, "{name}: the advance sees the work that began before it");
            assert_eq!(ran, 1, "{name}");
        }
    }
}

#[tokio::test]
async fn due_work_of_an_advancing_clock_is_left_to_the_advance() {
    for kind in &KINDS {
        let shop = Shop::open().await;
        let (db, account) = (&shop.db, shop.caller.account_id);
        (kind.prepare)(&shop).await;
        shop.write("INSERT INTO test_clocks (account_id) VALUES ($1)", account.uuid()).await;
        test_clocks::begin(db, account, at("2026-03-01T00:00:00Z"), at(DUE)).await.expect("begun");
        for scope in [Scope::AllAccounts(at(DUE)), Scope::Account(account, at(DUE))] {
            (kind.run)(db, scope).await;
            assert_eq!(count(db, kind.done).await, 0, "{}, {scope:?}", kind.name);
        }
        (kind.run)(db, Scope::Advance(account, at(DUE))).await;
        assert_eq!(count(db, kind.done).await, 1, "{}", kind.name);
    }
}
