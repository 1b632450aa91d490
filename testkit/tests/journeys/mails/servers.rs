//! Mail servers that refuse, hang or lose their connection, and workers that are killed.

use anyhow::Result;
use testkit::mail_server::{CLOSE, END, HANG, MailServer};
use testkit::{Builder, Cluster, ProcessKind};

use super::{ADA, customer, ended, invoice, mails, outcomes, retry_after, turn_on};
use crate::support::{Merchant, eventually, metric, ok};

fn with_server(url: &str) -> Builder {
    Cluster::builder().api(1).env("MAIL_FOLDER", "").env("SMTP_URL", url).env("MAIL_BOUNCES", "bounces@test.example")
}

/// A merchant of this cluster whose e-mails are on, and its customer.
async fn merchant(cluster: &Cluster) -> Result<(Merchant, String)> {
    let merchant = Merchant::new(cluster).await?;
    turn_on(&merchant, "en").await?;
    let customer = customer(&merchant, ADA).await?;
    Ok((merchant, customer))
}

#[tokio::test]
async fn each_email_arrives_and_is_repeated_only_if_the_server_lost_its_answer() -> Result<()> {
    let script = [("MAIL", "450 4.3.2 later"), ("RCPT", "451 4.3.0 later"), (END, "452 4.3.1 disk full"), (END, CLOSE)];
    let server = MailServer::start(&script).await?;
    let cluster = with_server(&server.url).worker(1).start().await?;
    let (merchant, ada) = merchant(&cluster).await?;
    invoice(&merchant, &ada).await?;
    for attempt in 1..=script.len() {
        retry_after(&merchant, i32::try_from(attempt)?).await?;
    }
    let mails = ended(&merchant, 1).await?;
    assert_eq!((mails[0].outcome.as_deref(), mails[0].attempts), (Some("sent"), 5));
    let received = server.received();
    let ids = received.iter().filter_map(|mail| mail.lines().find(|line| line.starts_with("Message-ID: ")));
    let ids: Vec<_> = ids.collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
    assert!(received.iter().all(|mail| mail.contains("To: ada@example.com")));
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
