//! Receipts by e-mail: written with the outcome, sent asynchronously to the right recipients, once.

use std::collections::BTreeMap;

use testkit::mail_server::MailServer;
use testkit::{Builder, Cluster};
use tokio::net::TcpListener;

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, World, wait_until};

const PENDING: &str = "SELECT count(*) FROM gateway.receipts WHERE due_at IS NOT NULL";

async fn none_pending(world: &World) {
    wait_until("the last receipt", async || (world.number(PENDING).await == 0).then_some(())).await;
}

/// Makes pending receipts due now.
async fn make_retries_due(world: &World) {
    world.execute("UPDATE gateway.receipts SET due_at = clock_timestamp() WHERE due_at IS NOT NULL").await;
}

/// The sent e-mails, by transaction and recipient.
async fn emails(world: &World) -> BTreeMap<String, String> {
    none_pending(world).await;
    world.cluster.sent_mail()
}

fn with_receipt(form: Form) -> Form {
    form.with("email_receipt", "Y")
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_sent_to_the_requested_recipients() {
    let options = ["--contact-email", "books@shop.example", "--name", "Sh\u{f6}p", "--convenience-fee-fixed", "0.50"];
    let world = World::of(Cluster::builder().gateway(1), &options).await;
    let form = world.charge(GOOD).with("amount", "20.20").with("reference_id", "order-9");
    let both = with_receipt(form).with("emailReceiptDBAEmail", "Y");
    let sold = world.post("sale.php", &both).await;
    let of = |id: &str| with_receipt(world.keys().with("transaction_id", id));
    let refunded = world.post("refund.php", &of(sold.id()).with("amount", "1.00")).await;
    let authorized = world.post("authorize.php", &world.charge(GOOD).with("emailReceiptDBAEmail", "Y")).await;
    let captured = world.post("capture.php", &of(authorized.id()).with("amount", "5.00")).await;
    let voided = world.post("void.php", &of(authorized.id())).await;
    let credited = world.post("unreference_refund.php", &with_receipt(world.charge(GOOD))).await;
    // No receipt was requested, or there was no success.
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    world.post("sale.php", &with_receipt(world.charge(DECLINED))).await.is("F");
    let emails = emails(&world).await;
    let expected = [
        format!("{}-cardholder.eml", sold.id()),
        format!("{}-merchant.eml", sold.id()),
        format!("{}-cardholder.eml", refunded.id()),
        format!("{}-merchant.eml", authorized.id()),
        format!("{}-cardholder.eml", captured.id()),
        format!("{}-cardholder.eml", voided.id()),
        format!("{}-cardholder.eml", credited.id()),
    ];
    let mut names: Vec<_> = emails.keys().cloned().collect();
    names.sort_unstable();
    let mut sorted = expected.clone();
    sorted.sort_unstable();
    assert_eq!(names, sorted);
    let (ours, theirs) = (&emails[&expected[0]], &emails[&expected[1]]);
    for line in ["From: receipts@test.example", "To: jane@example.com"] {
        assert!(ours.contains(line), "{line} is not in {ours}");
    }
    assert!(theirs.contains("To: books@shop.example"), "{theirs}");
    for line in ["20.20 USD", "0.50 USD", "20.70 USD", "VISA ending in 4242", "order-9", sold.id()] {
        assert!(ours.contains(line) && theirs.contains(line), "{line} is not in {ours}{theirs}");
    }
    assert!(emails[&expected[2]].contains("Refund") && emails[&expected[5]].contains("Cancellation"));
    for email in emails.values() {
        assert!(!email.contains("XXXX") && !email.contains("12/2034") && !email.contains("424242"), "{email}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenged_sale_gets_its_receipt_once_confirmed() {
    let world = World::new().await;
    let form = with_receipt(world.charge(CHALLENGED)).with("3ds_redirect_url", "https://shop.example/");
    let (refused, confirmed) = (form.clone().with("amount", "7.00"), form);
    for (form, decision, count) in [(refused, "refuse", 0), (confirmed, "confirm", 1)] {
        let reply = world.post("sale.php", &form).await;
        let decided = world.raw(reply.text("redirect_url"), &Form::empty().with("decision", decision)).await;
        assert_eq!(decided.status(), 303);
        assert_eq!(world.number("SELECT count(*) FROM gateway.receipts").await, count, "{decision}");
    }
    assert_eq!(emails(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mailer_no_receipts_are_created() {
    let world = World::of(Cluster::builder().gateway(1).env("GATEWAY_MAIL_FOLDER", ""), &[]).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    assert_eq!(world.number("SELECT count(*) FROM gateway.receipts").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_without_a_valid_address_are_not_sent() {
    let world = World::new().await;
    world.post("sale.php", &world.charge(GOOD).with("emailReceiptDBAEmail", "Y")).await.is("00");
    let odd = with_receipt(world.charge(GOOD)).with("email", "jane,eve\u{2028}bcc:<x>@example.com");
    world.post("sale.php", &odd).await.expect_error("06", "");
    let odd = with_receipt(world.charge(GOOD)).with("email", "jane,eve,bcc:<x>@example.com");
    world.post("sale.php", &odd).await.expect_error("06", "");
    // Accepted by rule, but refused by the library that writes mails.
    let odd = with_receipt(world.charge(GOOD)).with("email", "jane..eve@example.com");
    world.post("sale.php", &odd).await.is("00");
    assert!(emails(&world).await.is_empty());
    let failed = "SELECT count(*) FROM gateway.receipts WHERE given_up_at IS NOT NULL AND tries = 1";
    assert_eq!(world.number(failed).await, 1);
    let set = ["account", "set", "--username", "shop", "--contact-email"];
    for bad in ["", "unknown", "a b@c.de"] {
        assert!(world.cluster.run_gateway(&[&set[..], &[bad]].concat()).await.is_err(), "{bad:?}");
    }
    let displayed = world.cluster.run_gateway(&[&set[..], &["books@shop.example"]].concat()).await.expect("set");
    assert_eq!(displayed["contact_email"], "books@shop.example");
    let displayed = world.cluster.run_gateway(&[&set[..], &["none"]].concat()).await.expect("set");
    assert!(displayed["contact_email"].is_null());
}

fn with_server(url: &str) -> Builder {
    Cluster::builder().gateway(1).env("GATEWAY_MAIL_FOLDER", "").env("GATEWAY_SMTP_URL", url)
}

async fn by_smtp(url: &str) -> World {
    World::of(with_server(url), &[]).await
}

/// Waits until the first attempt has failed and the receipt is rescheduled.
async fn wait_until_rescheduled(world: &World) {
    wait_until("the first attempt's result", async || {
        // An attempt's lease is two minutes.
        let rescheduled = "SELECT count(*) FROM gateway.receipts
                       WHERE tries = 1 AND due_at < clock_timestamp() + interval '1 minute'";
        (world.number(rescheduled).await == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_mail_errors_are_retried_and_permanent_ones_are_not() {
    let server = MailServer::start(&[
        ("RCPT", "450 later"),
        ("RCPT", "451 later"),
        ("RCPT", "250 fine"),
        ("RCPT", "550 no such user"),
    ])
    .await
    .expect("a mail server");
    let world = by_smtp(&server.url).await;
    let sold = world.post("sale.php", &with_receipt(world.charge(GOOD))).await;
    for tries in 1..=2 {
        wait_until("an attempt", async || {
            let waits = "SELECT COALESCE(max(tries), 0)::bigint FROM gateway.receipts
                         WHERE due_at < clock_timestamp() + interval '1 hour' AND due_at > clock_timestamp()";
            (world.number(waits).await == tries).then_some(())
        })
        .await;
        wait_until("its result", async || {
            // An attempt's lease is two minutes, and the delays after the first two attempts differ from it.
            let noted = "SELECT count(*) FROM gateway.receipts WHERE
                         abs(extract(epoch FROM due_at - clock_timestamp()) - CASE tries WHEN 1 THEN 60 ELSE 300 END) < 20";
            (world.number(noted).await == 1).then_some(())
        })
        .await;
        assert!(server.received().is_empty());
        make_retries_due(&world).await;
    }
    none_pending(&world).await;
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert!(received[0].contains("To: jane@example.com") && received[0].contains(sold.id()), "{}", received[0]);
    assert!(received[0].contains(&format!("Message-ID: <{}-cardholder@test.example>", sold.id())), "{}", received[0]);
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    none_pending(&world).await;
    assert_eq!(server.received().len(), 1);
    assert_eq!(
        world.number("SELECT count(*) FROM gateway.receipts WHERE given_up_at IS NOT NULL AND tries = 1").await,
        1
    );
    let metrics = format!("{}/metrics", world.cluster.metrics_url(testkit::ProcessKind::Gateway, 0));
    let metrics = world.http().get(metrics).send().await.expect("a response").text().await.expect("text");
    for (result, count) in [("sent", 1), ("retried", 2), ("failed", 1)] {
        let line = format!(r#"gateway_receipts_total{{result="{result}"}} {count}"#);
        assert!(metrics.contains(&line), "no {line} in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_sender_loses_no_receipt() {
    let server = MailServer::start(&[("MAIL", "530 5.7.0 Authentication required")]).await.expect("a mail server");
    let world = by_smtp(&server.url).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    wait_until_rescheduled(&world).await;
    assert!(server.received().is_empty());
    // The operator fixes the configuration.
    make_retries_due(&world).await;
    none_pending(&world).await;
    assert_eq!(server.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_server_texts_about_cardholders_are_not_logged() {
    let address = "jane.doe@customer.example";
    let server = MailServer::start(&[
        ("RCPT", "450 4.2.1 <jane.doe@customer.example>: Recipient address is busy"),
        ("RCPT", "550 5.1.1 <jane.doe@customer.example>: Recipient address rejected"),
    ])
    .await
    .expect("a mail server");
    let mut world = World::of(with_server(&server.url).env("RUST_LOG", "debug"), &[]).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD)).with("email", address)).await.is("00");
    wait_until_rescheduled(&world).await;
    make_retries_due(&world).await;
    none_pending(&world).await;
    let log = world.cluster.gateway(0).log();
    for line in
        ["a receipt was not sent", "the server responded 450 to RCPT", "a receipt could not be sent", "550 to RCPT"]
    {
        assert!(log.contains(line), "no {line} in {log}");
    }
    for person in [address, "customer.example", "Jane", "10001"] {
        assert!(!log.contains(person), "{person} is in {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_passwords_are_never_sent_without_tls() {
    let server = MailServer::start(&[]).await.expect("a mail server");
    let with_password = server.url.replace("smtp://", "smtp://shop:hunter2@");
    // The server does not support TLS.
    let world = by_smtp(&format!("{with_password}?tls=required")).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    wait_until_rescheduled(&world).await;
    let commands = server.commands();
    assert!(commands.contains(&"EHLO".to_owned()), "{commands:?}");
    assert!(commands.iter().all(|verb| ["EHLO", "QUIT", "RSET"].contains(&verb.as_str())), "{commands:?}");
    let builder = Cluster::builder().gateway(1).env("GATEWAY_MAIL_FOLDER", "").env("GATEWAY_SMTP_URL", &with_password);
    assert!(builder.start().await.is_err(), "it does not start");
    let both = Cluster::builder().gateway(1).env("GATEWAY_SMTP_URL", &server.url);
    assert!(both.start().await.is_err(), "a folder and a server");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_do_not_wait_for_mail_and_kills_lose_no_receipt() {
    // It accepts connections and never responds.
    let unresponsive = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let keys =
        |builder: Builder| builder.env("GATEWAY_CARD_KEY", &"a".repeat(64)).env("GATEWAY_PEPPER", &"b".repeat(64));
    let unresponsive_url = format!("smtp://{}", unresponsive.local_addr().expect("an address"));
    let mut world = World::of(keys(with_server(&unresponsive_url)), &[]).await;
    let sold = world.post("sale.php", &with_receipt(world.charge(GOOD))).await;
    let (_held, _) = unresponsive.accept().await.expect("an attempt");
    assert_eq!(world.number(PENDING).await, 1);
    world.cluster.gateway(0).kill9().expect("killed");
    // A later attempt, by a process with another server.
    drop(unresponsive);
    let server = MailServer::start(&[]).await.expect("a mail server");
    world.execute("UPDATE gateway.receipts SET tries = 7").await;
    make_retries_due(&world).await;
    let again = world.second_gateway(keys(with_server(&server.url))).await;
    none_pending(&world).await;
    assert_eq!(server.received().len(), 1);
    assert!(server.received()[0].contains(sold.id()));
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_for_one_recipient_delays_no_other_receipt() {
    const SLOW: &str = "slow@customer.example";
    let server = MailServer::start(&[]).await.expect("a mail server");
    server.hold(SLOW);
    let world = by_smtp(&server.url).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD)).with("email", SLOW)).await.is("00");
    wait_until("the attempt that hangs", async || server.commands().contains(&"RCPT".to_owned()).then_some(())).await;
    for _ in 0..3 {
        world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    }
    wait_until("the other receipts", async || (server.received().len() == 3).then_some(())).await;
    // They have arrived during the first attempt, whose lease is two minutes.
    let in_progress = "SELECT count(*) FROM gateway.receipts
                       WHERE tries = 1 AND due_at > clock_timestamp() + interval '1 minute'";
    assert_eq!(world.number(in_progress).await, 1);
    server.admit(1);
    none_pending(&world).await;
    assert_eq!(server.received().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_one_account_delay_none_of_another() {
    let server = MailServer::start(&[]).await.expect("a mail server");
    let world = by_smtp(&server.url).await;
    let other = world.add_account("other", &[]).await;
    let theirs = world.charge(GOOD).with("username", &other.username).with("api_key", &other.api_key);
    for form in [world.charge(GOOD), theirs] {
        world.post("sale.php", &form).await.is("00");
    }
    // A thousand that are due, and a later one.
    let due = "WITH copies AS (
            INSERT INTO gateway.transactions
            SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
            FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id AND a.username = 'shop',
                 generate_series(1, 1000)
            RETURNING id, account_id)
        INSERT INTO gateway.receipts (transaction_id, account_id, addressee, email, due_at)
        SELECT id, account_id, 'cardholder', 'first@example.com', clock_timestamp() - interval '1 minute' FROM copies
        UNION ALL
        SELECT t.id, t.account_id, 'cardholder', 'later@example.com', clock_timestamp() - interval '1 second'
        FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id AND a.username = 'other'";
    assert_eq!(world.execute(due).await, 1_001);
    let before = wait_until("the receipt of the other account", async || {
        server.received().iter().position(|email| email.contains("To: later@example.com"))
    })
    .await;
    assert!(before < 50, "{before} receipts were sent before it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receipts_of_refunds_of_a_charge_are_limited() {
    let world = World::new().await;
    let sold = world.post("sale.php", &with_receipt(world.charge(GOOD))).await;
    let refund = world.keys().with("transaction_id", sold.id()).with("amount", "0.01");
    world.post("refund.php", &refund).await.is("00");
    for _ in 0..22 {
        world.post("refund.php", &with_receipt(refund.clone())).await.is("00");
    }
    assert_eq!(emails(&world).await.len(), 1 + 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_fails_after_its_last_attempt() {
    let server = MailServer::start(&[("RCPT", "450 later"); 20]).await.expect("a mail server");
    let world = by_smtp(&server.url).await;
    world.post("sale.php", &with_receipt(world.charge(GOOD))).await.is("00");
    wait_until("the last attempt", async || {
        make_retries_due(&world).await;
        (world.number(PENDING).await == 0).then_some(())
    })
    .await;
    assert!(server.received().is_empty());
    assert_eq!(
        world.number("SELECT count(*) FROM gateway.receipts WHERE given_up_at IS NOT NULL AND tries = 8").await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_receipt_is_sent_by_one_process() {
    let mut world = World::of(Cluster::builder().gateway(3), &[]).await;
    let forms: Vec<_> = (0..40).map(|_| with_receipt(world.charge(GOOD))).collect();
    let sales = futures_util::future::join_all(forms.iter().map(|form| world.post("sale.php", form))).await;
    for reply in &sales {
        reply.is("00");
    }
    assert_eq!(emails(&world).await.len(), 40);
    assert_eq!(world.number("SELECT sum(tries)::bigint FROM gateway.receipts").await, 40);
    for index in 0..3 {
        assert!(!world.cluster.gateway(index).log().contains("a receipt was not sent"));
    }
}
