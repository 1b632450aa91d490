//! Codes 17 to 20, and 26, and what the requests of one account leave to others.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sqlx::Connection;

use crate::support::{DECLINED, GOOD, World, wait_until};

async fn with(options: &[&str]) -> World {
    let world = World::new().await;
    world.set(options).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn sale_and_monthly_limits_apply() {
    let world = with(&["--sale-limit", "100.00", "--monthly-limit", "150.00"]).await;
    world.post("sale.php", &world.charge(GOOD).with("amount", "100.01")).await.expect_error("17", "");
    world.post("sale.php", &world.charge(GOOD).with("amount", "100.00")).await.is("00");
    world.post("authorize.php", &world.charge(GOOD).with("amount", "50.01")).await.expect_error("18", "");
    // A decline does not count.
    world.post("sale.php", &world.charge(DECLINED).with("amount", "50.00")).await.is("F");
    world.post("authorize.php", &world.charge(GOOD).with("amount", "50.00")).await.is("00");
    world.post("sale.php", &world.charge(GOOD).with("amount", "0.01")).await.expect_error("18", "");
    // Each currency has its own volume, and a credit does not count.
    world.post("sale.php", &world.charge(GOOD).with("amount", "0.01").with("currency", "EUR")).await.is("00");
    world.post("unreference_refund.php", &world.charge(GOOD).with("amount", "99.00")).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daily_limit_includes_declines() {
    let world = with(&["--daily-transactions", "3"]).await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &world.charge(DECLINED)).await.is("F");
    // Requests refused before entry do not count.
    world.post("sale.php", &world.charge(GOOD).with("amount", "x")).await.is("07");
    let third = world.post("sale.php", &world.charge(GOOD).with("reference_id", "third")).await;
    world.post("sale.php", &world.charge(GOOD)).await.expect_error("19", "");
    // A repeated request gets 26, not the code of the limit.
    world.post("sale.php", &world.charge(GOOD).with("reference_id", "third")).await.expect_error("26", "");
    let of = world.keys().with("transaction_id", third.id());
    world.post("void.php", &of).await.is("00");
    world.execute("UPDATE gateway.usage SET day = day - 1").await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_waited_past_midnight_count_in_the_new_day() {
    let world = with(&["--daily-transactions", "3"]).await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    // As if another request had begun the new day while these two still pass the day before.
    world.execute("UPDATE gateway.usage SET day = day + 1").await;
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &world.charge(GOOD)).await.expect_error("19", "");
    let counted = "SELECT count(*) FROM gateway.usage
                WHERE transactions = 3 AND day > (SELECT min(created_at)::date FROM gateway.transactions)";
    assert_eq!(world.number(counted).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_limit_applies_per_hour() {
    let world = with(&["--hourly-per-address", "2"]).await;
    let from = |ip: &str| world.charge(GOOD).with("client_ip", ip);
    world.post("sale.php", &from("192.0.2.1")).await.is("00");
    world.post("sale.php", &from("::ffff:192.0.2.1")).await.is("00");
    world.post("sale.php", &from("192.0.2.1")).await.expect_error("20", "");
    world.post("sale.php", &from("192.0.2.2")).await.is("00");
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.execute("UPDATE gateway.transactions SET created_at = created_at - interval '61 minutes'").await;
    world.post("sale.php", &from("192.0.2.1")).await.is("00");
}

/// Whoever has one IPv6 address has many.
#[tokio::test(flavor = "multi_thread")]
async fn the_address_limit_counts_a_subnet_of_ipv6_as_one_address() {
    let world = with(&["--hourly-per-address", "2"]).await;
    let from = |ip: &str| world.charge(GOOD).with("client_ip", ip);
    let first = world.post("sale.php", &from("2001:db8:0:1::1")).await;
    world.post("sale.php", &from("2001:db8:0:1:ffff:ffff:ffff:ffff")).await.is("00");
    world.post("sale.php", &from("2001:db8:0:1::2")).await.expect_error("20", "");
    world.post("sale.php", &from("2001:db8:0:2::1")).await.is("00");
    assert_eq!(world.record(first.id()).await["IP"], "2001:db8:0:1::1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_can_be_used_once_whatever_its_outcome() {
    let world = World::new().await;
    let other = world.add_account("other", &[]).await;
    world.post("sale.php", &world.charge(DECLINED).with("reference_id", "a")).await.is("F");
    for script in ["sale.php", "authorize.php", "unreference_refund.php"] {
        world.post(script, &world.charge(GOOD).with("reference_id", "a")).await.expect_error("26", "");
        // 26 comes first, whatever else is wrong.
        let spent = world.charge(GOOD).without("creditcard_number").with("reference_id", "a");
        world.post(script, &spent).await.expect_error("26", "");
    }
    world.execute("UPDATE gateway.transactions SET created_at = created_at - interval '1 year'").await;
    world.post("sale.php", &world.charge(GOOD).with("reference_id", "a")).await.expect_error("26", "");
    // A refused request has not used its reference, and another account's references are separate.
    world.post("sale.php", &world.charge(GOOD).with("amount", "0").with("reference_id", "b")).await.is("07");
    world.post("sale.php", &world.charge(GOOD).with("reference_id", "b")).await.is("00");
    let theirs = world.charge(GOOD).with("username", &other.username).with("api_key", &other.api_key);
    world.post("sale.php", &theirs.with("reference_id", "a")).await.is("00");
    let long = "x".repeat(256);
    world.post("sale.php", &world.charge(GOOD).with("reference_id", &long)).await.expect_error("A1", "reference_id");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_reference_a_success_blocks_duplicates_for_two_minutes() {
    let world = World::new().await;
    let form = world.charge(GOOD);
    world.post("sale.php", &form).await.is("00");
    world.post("sale.php", &form).await.expect_error("26", "");
    // A charge that differs in any of these is not a duplicate.
    world.post("authorize.php", &form).await.is("00");
    world.post("sale.php", &form.clone().with("currency", "EUR")).await.is("00");
    world.post("sale.php", &form.clone().with("amount", "3.33")).await.is("00");
    world.post("sale.php", &form.clone().with("creditcard_number", "5555555555554444")).await.is("00");
    // A reference marks it as intended, and its success blocks duplicates too.
    world.post("sale.php", &form.clone().with("reference_id", "meant")).await.is("00");
    // The gateway follows the database's clock to within milliseconds.
    let past = "UPDATE gateway.duplicate_guards SET until = clock_timestamp() - interval '1 second'";
    world.execute(past).await;
    world.post("sale.php", &form).await.is("00");
    // A decline may be repeated.
    let declined = world.charge(DECLINED);
    world.post("sale.php", &declined).await.is("F");
    world.post("sale.php", &declined).await.is("F");
}

/// A referenced charge ends while an identical one without a reference is in progress.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_of_a_charge_in_progress_is_never_shortened() {
    let world = World::new().await;
    let form = world.charge(GOOD);
    world.post("sale.php", &form).await.is("00");
    let in_progress = [
        "UPDATE gateway.transactions SET state = 'in_progress', ended_at = NULL, captured = 0, settles_at = NULL,
             recover_at = 'infinity'",
        "UPDATE gateway.duplicate_guards SET until = 'infinity', success_until = NULL",
        // So that recovery finds nothing, and ends the charge as failed.
        "DELETE FROM gateway.acquirer_books",
    ];
    for statement in in_progress {
        assert_eq!(world.execute(statement).await, 1, "{statement}");
    }
    world.post("sale.php", &form.clone().with("reference_id", "meant")).await.is("00");
    let held = "SELECT count(*) FROM gateway.duplicate_guards WHERE until = 'infinity'";
    assert_eq!(world.number(held).await, 1, "the first one is still in progress");
    // When that one fails, the success of the other holds for the rest of its time.
    let due = "UPDATE gateway.transactions SET recover_at = clock_timestamp() WHERE recover_at IS NOT NULL";
    assert_eq!(world.execute(due).await, 1);
    wait_until("recovery", async || {
        let failed = "SELECT count(*) FROM gateway.transactions WHERE state = 'failed'";
        (world.number(failed).await == 1).then_some(())
    })
    .await;
    assert_eq!(world.number(held).await, 0);
    world.post("sale.php", &form).await.expect_error("26", "");
}

/// More sales than the gateway has connections wait for the lock of their account.
#[tokio::test(flavor = "multi_thread")]
async fn sales_of_an_account_that_wait_delay_no_other_account() {
    let world = World::new().await;
    let other = world.add_account("other", &[]).await;
    let theirs = || world.charge(GOOD).with("username", &other.username).with("api_key", &other.api_key);
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &theirs()).await.is("00");
    let mut session = world.database().await;
    let mut held = session.begin().await.expect("a transaction");
    let lock =
        "SELECT FROM gateway.usage u WHERE u.account_id = (SELECT id FROM gateway.accounts WHERE username = 'shop')
                FOR NO KEY UPDATE";
    sqlx::query(lock).execute(&mut *held).await.expect("the row is held");

    let forms: Vec<_> = (0..20).map(|_| world.charge(GOOD)).collect();
    let waiting = join_all(forms.iter().map(|form| world.post("sale.php", form)));
    let meanwhile = async {
        let blocked = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name = 'gateway' AND wait_event_type = 'Lock'";
        wait_until("sales that wait", async || (world.number(blocked).await >= 2).then_some(())).await;
        // The others arrive.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let began = Instant::now();
        world.post("sale.php", &theirs()).await.is("00");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        held.rollback().await.expect("rolled back");
    };
    let (replies, ()) = tokio::join!(waiting, meanwhile);
    for reply in &replies {
        if reply.code() != "00" {
            reply.expect_error("A1", "nothing was entered");
        }
    }
    assert!(replies.iter().any(|reply| reply.code() == "00"), "{replies:?}");
}
