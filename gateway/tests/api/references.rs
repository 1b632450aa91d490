//! The reference of a capture, void or refund: usable once per account, without a time limit.

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, Reply, World, count};

const TIMES: usize = 30;

struct Shop(World);

impl Shop {
    /// At a gateway that other tests use.
    async fn open() -> Self {
        Self(World::shared().await)
    }

    /// At a gateway of its own.
    async fn alone() -> Self {
        Self(World::new().await)
    }

    async fn charge(&self, script: &str, amount: &str, reference: &str) -> String {
        let form = self.0.charge(GOOD).with("amount", amount).with("reference_id", reference);
        self.0.post(script, &form).await.id().to_owned()
    }

    fn of(&self, charge: &str, reference: &str) -> Form {
        self.0.keys().with("transaction_id", charge).with("reference_id", reference)
    }

    async fn refund(&self, charge: &str, amount: &str, reference: &str) -> Reply {
        self.0.post("refund.php", &self.of(charge, reference).with("amount", amount)).await
    }

    async fn refunded(&self) -> i64 {
        self.0.number("SELECT sum(refunded)::bigint FROM gateway.transactions").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_concurrent_refunds_with_one_reference_enter_one() {
    let shop = Shop::alone().await;
    let sold = shop.charge("sale.php", "100.00", "order-1").await;
    let replies = shop.0.concurrently("refund.php", &shop.of(&sold, "refund-1").with("amount", "1.00"), TIMES).await;
    assert_eq!((count(&replies, "00"), count(&replies, "26")), (1, TIMES - 1), "{replies:?}");
    assert_eq!(shop.refunded().await, 100);
    // Also for refunds of different charges, which no common row lock serializes.
    let mut forms = Vec::new();
    for n in 0..TIMES {
        let sold = shop.charge("sale.php", &format!("50.{n:02}"), &format!("many-{n}")).await;
        forms.push(shop.of(&sold, "refund-2").with("amount", "1.00"));
    }
    let posted = forms.iter().map(|form| shop.0.post("refund.php", form));
    let replies = futures_util::future::join_all(posted).await;
    assert_eq!((count(&replies, "00"), count(&replies, "26")), (1, TIMES - 1), "{replies:?}");
    assert_eq!(shop.refunded().await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_reference_is_26_before_any_other_check() {
    let shop = Shop::open().await;
    let held = shop.charge("authorize.php", "30.00", "order-1").await;
    let capture = shop.of(&held, "capture-1").with("amount", "30.00");
    shop.0.post("capture.php", &capture).await.is("00");
    // Without the reference: 15.
    shop.0.post("capture.php", &capture).await.expect_error("26", "");
    shop.refund(&held, "30.00", "refund-1").await.is("00");
    // Without it: 14.
    shop.refund(&held, "30.00", "refund-1").await.expect_error("26", "");
    let sold = shop.charge("sale.php", "40.00", "order-2").await;
    shop.0.post("void.php", &shop.of(&sold, "void-1")).await.is("00");
    // Without it: 16 and 13.
    shop.0.post("void.php", &shop.of(&sold, "void-1")).await.expect_error("26", "");
    shop.refund(&sold, "40.00", "void-1").await.expect_error("26", "");
    // A reference belongs to one child, whatever its kind and charge; 26 comes before 12 and 07 too.
    for form in
        [shop.of("no-such-id", "refund-1"), shop.of("01ARZ3NDEKTSV4RRFFQ69G5FAV", "refund-1").with("amount", "0")]
    {
        shop.0.post("refund.php", &form).await.expect_error("26", "");
    }
    // Authentication comes first.
    let wrong_key = shop.of(&held, "refund-1").with("amount", "1.00").with("api_key", "wrong");
    shop.0.post("refund.php", &wrong_key).await.expect_error("09", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_never_expires_and_depends_on_no_clock() {
    let shop = Shop::alone().await;
    let sold = shop.charge("sale.php", "90.00", "order-1").await;
    shop.refund(&sold, "30.00", "refund-1").await.is("00");
    // The same request, delayed on its way to a gateway whose clock is behind, for which it is not late.
    let late = shop.of(&sold, "refund-1").with("amount", "30.00").with("valid_until", "32503680000000");
    shop.0.post("refund.php", &late).await.expect_error("26", "");
    shop.0.execute("UPDATE gateway.transactions SET created_at = created_at - interval '400 days'").await;
    shop.0.post("refund.php", &late).await.expect_error("26", "");
    assert_eq!(shop.refunded().await, 3_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_keep_their_reference_and_failed_ones_use_it_up() {
    let shop = Shop::alone().await;
    let sold = shop.charge("sale.php", "20.00", "order-1").await;
    shop.refund(&sold, "20.01", "refund-1").await.expect_error("14", "");
    shop.0.post("refund.php", &shop.of(&sold, "refund-1").with("amount", "nothing")).await.expect_error("07", "");
    shop.0.post("capture.php", &shop.of(&sold, "refund-1").with("amount", "1.00")).await.expect_error("15", "");
    let late = shop.of(&sold, "refund-1").with("amount", "5.00").with("valid_until", "1");
    shop.0.post("refund.php", &late).await.expect_error("A2", "");
    shop.refund(&sold, "5.00", "refund-1").await.is("00");
    // In progress until recovery finishes it; then failed.
    let in_progress = "UPDATE gateway.transactions SET state = 'in_progress', ended_at = NULL, recover_at = 'infinity'
                       WHERE kind = 'refund'";
    assert_eq!(shop.0.execute(in_progress).await, 1);
    shop.refund(&sold, "5.00", "refund-1").await.expect_error("26", "");
    let failed = "UPDATE gateway.transactions SET state = 'failed', reason = 'not processed', recover_at = NULL, ended_at = now()
                  WHERE kind = 'refund'";
    assert_eq!(shop.0.execute(failed).await, 1);
    shop.refund(&sold, "5.00", "refund-1").await.expect_error("26", "");
    // An invalid reference is A1, and nothing is entered.
    shop.refund(&sold, "5.00", &"x".repeat(256)).await.expect_error("A1", "reference_id");
    assert_eq!(shop.0.report(&[("transaction_type", "REFUND")]).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_shows_both_references_of_a_child() {
    let shop = Shop::open().await;
    let held = shop.charge("authorize.php", "30.00", "order-1").await;
    let captured = shop.0.post("capture.php", &shop.of(&held, "capture-1").with("amount", "30.00")).await;
    let plain = shop.0.keys().with("transaction_id", &held).with("amount", "1.00");
    let refunded = shop.0.post("refund.php", &plain).await;
    for (id, own) in [(held.as_str(), ""), (captured.id(), "capture-1"), (refunded.id(), "")] {
        let record = shop.0.record(id).await;
        assert_eq!(
            (&record["reference_id"], &record["child_reference_id"]),
            (&"order-1".into(), &own.into()),
            "{record}"
        );
    }
    // The filter applies to the charge's reference.
    assert_eq!(shop.0.report(&[("reference_id", "order-1")]).await.len(), 3);
    assert_eq!(shop.0.report(&[("reference_id", "capture-1")]).await.len(), 0);
    assert_eq!(shop.0.report(&[("transaction_type", "CAPTURE")]).await[0]["child_reference_id"], "capture-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn references_of_children_charges_and_accounts_are_independent() {
    let shop = Shop::open().await;
    let sold = shop.charge("sale.php", "20.00", "one").await;
    // The charge's own reference does not count for its children.
    shop.refund(&sold, "1.00", "one").await.is("00");
    shop.refund(&sold, "1.00", "two").await.is("00");
    let second = shop.charge("sale.php", "21.00", "two").await;
    shop.refund(&second, "1.00", "two").await.expect_error("26", "");
    // Without a reference there are no duplicates.
    for _ in 0..2 {
        let plain = shop.0.keys().with("transaction_id", &sold).with("amount", "2.00");
        shop.0.post("refund.php", &plain).await.is("00");
    }
    let other = shop.0.add_account("other", &[]).await;
    let keys = |form: Form| form.with("username", &other.username).with("api_key", &other.api_key);
    let theirs = shop.0.post("sale.php", &keys(shop.0.charge(GOOD))).await;
    let refund = keys(shop.of(theirs.id(), "two").with("amount", "1.00"));
    shop.0.post("refund.php", &refund).await.is("00");
    shop.0.post("refund.php", &refund).await.expect_error("26", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_unsuccessful_charges_keep_their_reference() {
    let shop = Shop::open().await;
    let form = shop.0.charge(DECLINED).with("reference_id", "no");
    shop.0.post("sale.php", &form).await.expect_error("F", "");
    let declined = shop.0.report(&[("reference_id", "no")]).await[0]["transaction_id"].clone();
    let pending = shop.0.charge(CHALLENGED).with("3ds_redirect_url", "https://shop.example/");
    let pending = shop.0.post("sale.php", &pending).await.id().to_owned();
    let sold = shop.charge("sale.php", "20.00", "one").await;
    for id in [declined.as_str().expect("an id"), &pending] {
        shop.0.post("void.php", &shop.of(id, "void-1")).await.expect_error("16", "");
    }
    shop.0.post("void.php", &shop.of(&sold, "void-1")).await.is("00");
}
