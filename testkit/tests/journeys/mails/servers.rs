//! Mail servers that refuse, hang or lose their connection, and workers that are killed.

use std::fs;

use anyhow::Result;
use serde_json::json;
use testkit::mail_server::{CLOSE, END, HANG, MailServer};
use testkit::{Builder, Cluster, ProcessKind};

use super::{ADA, BOB, customer, ended, invoice, mails, outcomes, retry_after, turn_on};
use crate::support::{Merchant, concurrently, created, eventually, metric, ok};

/// What a worker sends at the same time: so many receipts, and so many others.
const SLOTS: usize = 8;

fn with_server(url: &str) -> Builder {
    Cluster::builder().api(1).env("MAIL_FOLDER", "").env("SMTP_URL", url).env("MAIL_BOUNCES", "bounces@test.example")
}

/// A merchant of this cluster whose e-mails are on, and its customer.
async fn merchant(cluster: &Cluster) -> Result<(Merchant, String)> {
    merchant_of(cluster, ADA).await
}

/// The same with a customer who has this address.
async fn merchant_of(cluster: &Cluster, email: &str) -> Result<(Merchant, String)> {
    let merchant = Merchant::new(cluster).await?;
    turn_on(&merchant, "en").await?;
    let recipient = "UPDATE mail_settings SET test_recipients = ARRAY[$2] WHERE account_id = $1";
    sqlx::query(recipient).bind(merchant.books.account).bind(email).execute(&merchant.books.db).await?;
    let customer = customer(&merchant, email).await?;
    Ok((merchant, customer))
}

/// Makes a payment of no invoice, which has a receipt.
async fn pay(merchant: &Merchant, customer: &str) -> Result<()> {
    let body = json!({"amount": 1250, "currency": "EUR", "paymentToken": "tok_ok", "customerId": customer});
    created(&merchant.api.post("/v1/payments", body).await?);
    Ok(())
}

/// Waits until the server was told so many recipients.
async fn recipients(server: &MailServer, count: usize) -> Result<()> {
    eventually("recipients", async || {
        let told = server.commands().iter().filter(|command| *command == "RCPT").count();
        Ok((told >= count).then_some(()))
    })
    .await
}

/// Waits until the server has received so many messages to this recipient.
async fn received(server: &MailServer, recipient: &str, count: usize) -> Result<()> {
    eventually("messages", async || {
        let received = server.received().iter().filter(|message| message.contains(recipient)).count();
        Ok((received == count).then_some(()))
    })
    .await
}

#[tokio::test]
async fn each_email_arrives_and_is_repeated_only_if_the_server_lost_its_reply() -> Result<()> {
    let script = [
        ("MAIL", "450 4.3.2 later"),
        ("RCPT", "451 4.3.0 later"),
        // The third attempt, in which it answers two commands twice.
        ("RCPT", "250 fine\r\n250 fine"),
        (END, "452 4.3.1 disk full"),
        ("DATA", "354 go on\r\n354 go on"),
        (END, CLOSE),
        (END, "250 fine"),
        // Of the second e-mail.
        (END, CLOSE),
        (END, CLOSE),
    ];
    let server = MailServer::start(&script).await?;
    let cluster = with_server(&server.url).worker(1).start().await?;
    let (merchant, ada) = merchant(&cluster).await?;
    invoice(&merchant, &ada).await?;
    for attempt in 1..=4 {
        retry_after(&merchant, attempt).await?;
    }
    let mails = ended(&merchant, 1).await?;
    assert_eq!((mails[0].outcome.as_deref(), mails[0].attempts), (Some("sent"), 5));
    let received = server.received();
    let ids = received.iter().filter_map(|mail| mail.lines().find(|line| line.starts_with("Message-ID: ")));
    let ids: Vec<_> = ids.collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
    for mail in &received {
        assert!(
            mail.starts_with("Return-Path: <bounces@test.example>") && mail.contains("To: ada@example.com"),
            "{mail}"
        );
    }
    // There is no third copy of one whose reply is lost each time.
    invoice(&merchant, &ada).await?;
    retry_after(&merchant, 1).await?;
    let mails = ended(&merchant, 2).await?;
    assert_eq!((mails[1].outcome.as_deref(), mails[1].attempts), (Some("failed"), 2));
    assert_eq!(server.received().len(), 4);
    assert!(metric(&cluster, ProcessKind::Worker, r#"mails_total{kind="invoice",outcome="retried"}"#).await? >= 4.0);
    Ok(())
}

#[tokio::test]
async fn a_final_refusal_is_not_repeated_and_no_address_is_logged_or_stored() -> Result<()> {
    let server = MailServer::start(&[("RCPT", "550 5.1.1 <ada@example.com>: no such user")]).await?;
    let mut cluster = with_server(&server.url).worker(1).env("RUST_LOG", "debug").start().await?;
    let (merchant, ada) = merchant(&cluster).await?;
    invoice(&merchant, &ada).await?;
    let mails = ended(&merchant, 1).await?;
    assert_eq!((mails[0].outcome.as_deref(), mails[0].attempts), (Some("failed"), 1));
    assert_eq!(mails[0].reason.as_deref(), Some("the server responded 550 to RCPT"));
    let log = cluster.worker(0).log();
    assert!(log.contains("an e-mail could not be sent") && !log.contains(ADA), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_killed_worker_loses_no_email_and_what_is_out_of_date_is_not_sent() -> Result<()> {
    let server = MailServer::start(&[("RCPT", HANG)]).await?;
    let mut cluster = with_server(&server.url).worker(1).start().await?;
    let (merchant, ada) = merchant(&cluster).await?;
    invoice(&merchant, &ada).await?;
    eventually("an attempt", async || Ok(server.commands().contains(&"RCPT".to_owned()).then_some(()))).await?;
    cluster.worker(0).kill9()?;
    let voided = invoice(&merchant, &ada).await?;
    let path = format!("/v1/invoices/{}/void", voided["id"].as_str().unwrap_or_default());
    ok(&merchant.api.send(reqwest::Method::POST, &path, None).await?);
    let deleted = customer(&merchant, ADA).await?;
    invoice(&merchant, &deleted).await?;
    let gone = format!("/v1/customers/{deleted}");
    ok(&merchant.api.send(reqwest::Method::DELETE, &gone, None).await?);
    assert_eq!(mails(&merchant).await?.len(), 3);
    // The claim of the killed worker ends.
    sqlx::query("UPDATE mails SET due_at = now() WHERE attempts = 1").execute(&merchant.books.db).await?;
    cluster.add(ProcessKind::Worker).await?;
    let ended = ended(&merchant, 3).await?;
    let expected = [
        ("invoice", "sent", ""),
        ("invoice", "not_sent", "the invoice is no longer to be paid"),
        ("invoice", "not_sent", "the customer or the event was deleted"),
    ];
    assert_eq!(outcomes(&ended), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    assert_eq!(server.received().len(), 1);
    Ok(())
}

#[tokio::test]
async fn the_receipts_of_a_merchant_delay_no_other_merchant() -> Result<()> {
    // Even if each attempt ended by the time limit, they would take longer than a test waits.
    const RECEIPTS: usize = 5 * SLOTS;
    let server = MailServer::start(&[]).await?;
    server.hold(ADA);
    let cluster = with_server(&server.url).worker(1).start().await?;
    let (busy, ada) = merchant(&cluster).await?;
    concurrently(RECEIPTS, |_| pay(&busy, &ada)).await?;
    recipients(&server, SLOTS).await?;
    // Receipts wait for slots now, and other e-mails do not.
    let (other, bob) = merchant_of(&cluster, BOB).await?;
    invoice(&other, &bob).await?;
    received(&server, BOB, 1).await?;
    // Nor do the receipts of other merchants wait for all of these.
    pay(&other, &bob).await?;
    server.admit(SLOTS);
    received(&server, BOB, 2).await?;
    received(&server, ADA, SLOTS).await?;
    let sent = ended(&other, 2).await?;
    let sent: Vec<_> = sent.iter().map(|mail| (mail.kind.as_str(), mail.outcome.as_deref())).collect();
    assert_eq!(sent, [("invoice", Some("sent")), ("receipt", Some("sent"))]);
    Ok(())
}

#[tokio::test]
async fn a_server_that_hangs_for_one_recipient_delays_no_other() -> Result<()> {
    const OTHERS: usize = 3 * SLOTS;
    let server = MailServer::start(&[]).await?;
    server.hold(BOB);
    let mut cluster = with_server(&server.url).start().await?;
    let (held, bob) = merchant_of(&cluster, BOB).await?;
    invoice(&held, &bob).await?;
    let (quick, ada) = merchant(&cluster).await?;
    concurrently(OTHERS, |_| invoice(&quick, &ada)).await?;
    cluster.add(ProcessKind::Worker).await?;
    received(&server, ADA, OTHERS).await?;
    // All others have arrived during its first attempt.
    let waiting = mails(&held).await?;
    let waiting = (waiting[0].outcome.as_deref(), waiting[0].reason.as_deref(), waiting[0].attempts);
    assert_eq!(waiting, (None, None, 1));
    server.admit(1);
    ended(&held, 1).await?;
    received(&server, BOB, 1).await?;
    Ok(())
}

#[tokio::test]
async fn a_worker_that_stops_finishes_what_it_sends_and_claims_nothing_more() -> Result<()> {
    let server = MailServer::start(&[]).await?;
    server.hold(ADA);
    let mut cluster = with_server(&server.url).worker(1).start().await?;
    let (merchant, ada) = merchant(&cluster).await?;
    invoice(&merchant, &ada).await?;
    recipients(&server, 1).await?;
    let log = cluster.logs().join("worker-0.log");
    let meanwhile = async {
        eventually("the stop", async || Ok(fs::read_to_string(&log)?.contains("worker is stopping").then_some(())))
            .await?;
        invoice(&merchant, &ada).await?;
        server.admit(2);
        anyhow::Ok(())
    };
    let (status, ()) = tokio::try_join!(cluster.worker(0).terminate(), meanwhile)?;
    assert!(status.success(), "{status}");
    let mails = mails(&merchant).await?;
    let mails: Vec<_> = mails.iter().map(|mail| (mail.outcome.as_deref(), mail.attempts)).collect();
    assert_eq!(mails, [(Some("sent"), 1), (None, 0)]);
    assert_eq!(server.received().len(), 1);
    Ok(())
}
