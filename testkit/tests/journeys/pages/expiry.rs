//! Expiry of links during payment: late submissions are rejected, submissions in time complete.

use anyhow::{Context, Result};
use testkit::Cluster;

use super::{LINKS, current, event_types, expire, ledgers, link, link_at, wait_for_status};
use crate::support::{Merchant, conflict, eventually, id, merchant, ok, redirect_payment_id};

#[tokio::test]
async fn forms_submitted_after_expiry_are_rejected() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    assert!(payer.open().await?.has_pay_button());
    expire(&merchant, &made).await?;
    let response = payer.submit("tok_ok").await?;
    assert_eq!(redirect_payment_id(&response), None);
    let page = payer.follow(&response).await?;
    page.assert_shows(200, &["has expired", "for a new one"]);
    assert!(!page.has_pay_button());
    assert_eq!(merchant.books.operations().await?, 0, "no operation was created");
    wait_for_status(&merchant, &made, "expired").await?;
    Ok(())
}

#[tokio::test]
async fn links_expire_by_the_account_clock() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    merchant.advance("31 days").await?;
    payer.pay("tok_ok").await?.assert_shows(200, &["has expired"]);
    assert_eq!(merchant.books.operations().await?, 0);
    assert_eq!(current(&merchant, &made).await?["status"], "expired");
    Ok(())
}

#[tokio::test]
async fn cancelled_links_and_voided_invoices_cannot_be_paid() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    ok(&merchant.api.send(reqwest::Method::POST, &format!("{LINKS}/{}/cancel", id(&made)?), None).await?);
    payer.pay("tok_ok").await?.assert_shows(200, &["was cancelled"]);
    let (made, payer) = super::invoice(&merchant, 500).await?;
    let void = format!("{}/{}/void", super::INVOICES, id(&made)?);
    ok(&merchant.api.send(reqwest::Method::POST, &void, None).await?);
    payer.pay("tok_ok").await?.assert_shows(200, &["was voided"]);
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

/// Lets a link expire while a payment for it waits for a paused worker.
async fn expire_during_payment(cluster: &mut Cluster, token: &str) -> Result<(Merchant, serde_json::Value)> {
    let merchant = Merchant::new(cluster).await?;
    let (made, payer) = link_at(cluster, &merchant, 500).await?;
    let (other, _) = link_at(cluster, &merchant, 500).await?;
    cluster.worker(0).pause()?;
    let expiring = async {
        eventually("the intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        expire(&merchant, &made).await?;
        expire(&merchant, &other).await?;
        // The scheduler has expired the other link, so it has also skipped this one.
        wait_for_status(&merchant, &other, "expired").await?;
        eventually("the event of the other link", async || {
            Ok((!event_types(&merchant, &other).await?.is_empty()).then_some(()))
        })
        .await?;
        assert_eq!(current(&merchant, &made).await?["status"], "open");
        conflict(&merchant.api.send(reqwest::Method::POST, &format!("{LINKS}/{}/cancel", id(&made)?), None).await?);
        assert!(event_types(&merchant, &made).await?.is_empty());
        let page = payer.open().await?;
        page.assert_shows(200, &["being processed"]);
        assert!(page.response.header("refresh").is_some() && !page.has_pay_button());
        assert_eq!(redirect_payment_id(&payer.submit("tok_ok").await?), None);
        cluster.worker(0).resume()
    };
    let (response, ()) = tokio::try_join!(payer.submit(token), expiring)?;
    redirect_payment_id(&response).context("a payment")?;
    Ok((merchant, made))
}

#[tokio::test]
async fn a_payment_submitted_before_expiry_decides_the_link() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let (merchant, made) = expire_during_payment(&mut cluster, "tok_ok").await?;
    wait_for_status(&merchant, &made, "paid").await?;
    assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    assert_eq!(event_types(&merchant, &made).await?, ["payment_link.paid"]);

    let (merchant, made) = expire_during_payment(&mut cluster, "tok_insufficient").await?;
    wait_for_status(&merchant, &made, "expired").await?;
    eventually("payment_link.expired", async || {
        Ok((event_types(&merchant, &made).await? == ["payment_link.expired"]).then_some(()))
    })
    .await?;
    assert!(ledgers(&merchant, &made).await?.is_empty());

    // A partial approval is returned, and does not delay the expiry.
    let (merchant, made) = expire_during_payment(&mut cluster, "tok_partial").await?;
    wait_for_status(&merchant, &made, "expired").await?;
    eventually("the partial approval to be voided", async || {
        Ok((ledgers(&merchant, &made).await? == ["sale 250 voided, void 250"]).then_some(()))
    })
    .await
}
