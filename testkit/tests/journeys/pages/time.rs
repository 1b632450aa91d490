//! A link's time and a payer's meet: what was sent too late is refused, what was sent in time goes on to its end.

use anyhow::{Context, Result};
use testkit::Cluster;

use super::{LINKS, becomes, ledgers, link, link_at, shown, time_is_up, told};
use crate::support::{Merchant, conflict, eventually, id, merchant, ok, payment_made};

#[tokio::test]
async fn what_was_opened_before_and_sent_after_is_refused() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    assert!(payer.open().await?.can_be_paid());
    time_is_up(&merchant, &made).await?;
    let answer = payer.submit("tok_ok").await?;
    assert_eq!(payment_made(&answer), None);
    let page = payer.follow(&answer).await?;
    page.shows(200, &["has expired", "for a new one"]);
    assert!(!page.can_be_paid());
    assert_eq!(merchant.books.operations().await?, 0, "nothing was begun");
    becomes(&merchant, &made, "expired").await?;
    Ok(())
}

#[tokio::test]
async fn it_is_the_clock_of_the_account_that_counts() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    merchant.advance("31 days").await?;
    payer.pay("tok_ok").await?.shows(200, &["has expired"]);
    assert_eq!(merchant.books.operations().await?, 0);
    assert_eq!(shown(&merchant, &made).await?["status"], "expired");
    Ok(())
}

#[tokio::test]
async fn a_cancelled_link_and_a_voided_invoice_are_not_paid() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    ok(&merchant.api.send(reqwest::Method::POST, &format!("{LINKS}/{}/cancel", id(&made)?), None).await?);
    payer.pay("tok_ok").await?.shows(200, &["was cancelled"]);
    let (made, payer) = super::invoice(&merchant, 500).await?;
    let void = format!("{}/{}/void", super::INVOICES, id(&made)?);
    ok(&merchant.api.send(reqwest::Method::POST, &void, None).await?);
    payer.pay("tok_ok").await?.shows(200, &["was voided"]);
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

/// A cluster whose worker stands still while a payment for a link is under way, and whose time is up meanwhile.
async fn too_late_to_expire(token: &str) -> Result<(Cluster, Merchant, serde_json::Value)> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (made, payer) = link_at(&cluster, &merchant, 500).await?;
    let (other, _) = link_at(&cluster, &merchant, 500).await?;
    cluster.worker(0).pause()?;
    let meanwhile = async {
        eventually("the intent", async || Ok((merchant.books.operations().await? == 1).then_some(()))).await?;
        time_is_up(&merchant, &made).await?;
        time_is_up(&merchant, &other).await?;
        // The scheduler has been there, and has left it alone.
        becomes(&merchant, &other, "expired").await?;
        eventually("the other's event", async || Ok((!told(&merchant, &other).await?.is_empty()).then_some(())))
            .await?;
        assert_eq!(shown(&merchant, &made).await?["status"], "open");
        conflict(&merchant.api.send(reqwest::Method::POST, &format!("{LINKS}/{}/cancel", id(&made)?), None).await?);
        assert!(told(&merchant, &made).await?.is_empty());
        let page = payer.open().await?;
        page.shows(200, &["being processed"]);
        assert!(page.answer.header("refresh").is_some() && !page.can_be_paid());
        assert_eq!(payment_made(&payer.submit("tok_ok").await?), None);
        cluster.worker(0).resume()
    };
    let (answer, ()) = tokio::try_join!(payer.submit(token), meanwhile)?;
    payment_made(&answer).context("a payment")?;
    Ok((cluster, merchant, made))
}

#[tokio::test]
async fn what_was_sent_in_time_is_paid_though_time_was_up_meanwhile() -> Result<()> {
    let (_cluster, merchant, made) = too_late_to_expire("tok_ok").await?;
    becomes(&merchant, &made, "paid").await?;
    assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    assert_eq!(told(&merchant, &made).await?, ["payment_link.paid"]);
    Ok(())
}

#[tokio::test]
async fn a_payment_that_came_to_nothing_lets_the_link_expire() -> Result<()> {
    let (_cluster, merchant, made) = too_late_to_expire("tok_insufficient").await?;
    becomes(&merchant, &made, "expired").await?;
    eventually("the event", async || Ok((told(&merchant, &made).await? == ["payment_link.expired"]).then_some(())))
        .await?;
    assert!(ledgers(&merchant, &made).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_part_that_goes_back_holds_up_no_expiry() -> Result<()> {
    let (_cluster, merchant, made) = too_late_to_expire("tok_partial").await?;
    becomes(&merchant, &made, "expired").await?;
    eventually("the part to go back", async || {
        Ok((ledgers(&merchant, &made).await? == ["sale 250 voided, void 250"]).then_some(()))
    })
    .await
}
