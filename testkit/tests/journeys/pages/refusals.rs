//! What a page does not take.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::json;
use testkit::{Client, Cluster};

use super::{INVOICES, becomes, invoice, link, link_at, shown};
use crate::support::{Merchant, cluster, created, id, merchant, ok, payment_made, together};

const NUMBER: &str = "4242424242424242";

#[tokio::test]
async fn a_form_says_which_card_and_nothing_else_is_read() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    let api = cluster().await?.api_url(0);
    let unknown = "mtok_0000000000000000000000000000000000000000";
    for (form, says) in [
        ("", "No card was sent"),
        ("card=tok_ok", "No card was sent"),
        ("token=%00", "No card was sent"),
        ("token=", "No card was sent"),
        ("token=tok_nonsense", "could not be used"),
        (&format!("token={unknown}"), "could not be used"),
    ] {
        let answer = payer.send(form).await?;
        let html = String::from_utf8_lossy(&answer.bytes);
        assert_eq!(answer.status, 422, "{form}: {html}");
        assert!(html.contains(says) && html.contains("<button"), "{form}: {html}");
    }
    for content_type in ["application/json", "text/plain", "multipart/form-data; boundary=x"] {
        let browser = Client::new(&api)?.header("content-type", content_type)?;
        assert_eq!(browser.send(Method::POST, payer.path(), Some(b"token=tok_ok".to_vec())).await?.status, 422);
    }
    assert_eq!(payer.send(&format!("token=tok_ok&more={}", "x".repeat(8 * 1024))).await?.status, 413);
    assert_eq!(merchant.books.operations().await?, 0);
    assert_eq!(shown(&merchant, &made).await?["status"], "open");
    // A field that nobody asked for changes nothing.
    payer.pay(&format!("tok_ok&currency=JPY&number={NUMBER}")).await?.shows(200, &["Paid on"]);
    let paid = shown(&merchant, &made).await?;
    let payment = merchant.payment(paid["paymentId"].as_str().expect("paid")).await?;
    assert_eq!((&payment["amount"], &payment["currency"]), (&500.into(), &"USD".into()));
    Ok(())
}

#[tokio::test]
async fn a_card_number_is_neither_kept_nor_logged_nor_shown() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("RUST_LOG", "trace").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (_, payer) = link_at(&cluster, &merchant, 500).await?;
    for form in [format!("token={NUMBER}"), format!("number={NUMBER}&cvc=123"), format!("number={NUMBER}&token=tok_ok")]
    {
        let answer = payer.send(&form).await?;
        assert!(!String::from_utf8_lossy(&answer.bytes).contains(NUMBER));
    }
    let kept: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM operations WHERE account_id = $1 AND to_jsonb(operations)::text LIKE '%' || $2 || '%'",
    )
    .bind(merchant.books.account)
    .bind(NUMBER)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!((kept, merchant.books.operations().await?), (0, 1));
    for process in cluster.processes() {
        assert!(process.log().len() > 100, "there is a log");
        assert!(!process.log().contains(NUMBER), "{} has logged it", process.kind().name());
    }
    let token = payer.token();
    assert!(!cluster.api(0).log().lines().any(|line| line.contains("answered") && line.contains(token)));
    Ok(())
}

#[tokio::test]
async fn an_address_that_comes_too_often_is_told_when_to_come_again() -> Result<()> {
    let cluster = Cluster::builder().api(1).worker(1).env("PAGE_RATE_LIMIT", "1").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (made, payer) = link_at(&cluster, &merchant, 500).await?;
    let unknown = payer.at("/pay/l/nothing");
    let pages = together(30, async |i| [&payer, &unknown][i % 2].open().await).await?;
    let refused: Vec<_> = pages.iter().filter(|page| page.answer.status == 429).collect();
    assert!((20..=25).contains(&refused.len()), "{} of 30 were refused", refused.len());
    for page in refused {
        page.shows(429, &["One moment"]);
        assert!(page.answer.header("retry-after").is_some() && page.answer.header("content-security-policy").is_some());
    }
    // It touches nobody with a key.
    assert_eq!(shown(&merchant, &made).await?["status"], "open");
    Ok(())
}

/// So many cards may be declined within an hour.
const MOST: usize = 10;

#[tokio::test]
async fn a_page_does_not_find_out_which_cards_are_good() -> Result<()> {
    let merchant = merchant().await?;
    let (other, untouched) = link(&merchant, 500).await?;
    for (made, payer) in [link(&merchant, 500).await?, invoice(&merchant, 500).await?] {
        for nth in 1..=MOST {
            let page = payer.pay("tok_declined").await?;
            page.shows(200, &["declined by its bank"]);
            assert_eq!(page.can_be_paid(), nth < MOST, "after {nth}");
        }
        payer.open().await?.shows(200, &["Too many cards were declined here", "try again in an hour, or ask"]);
        // Not even by somebody whose form was open before.
        let operations = merchant.books.operations().await?;
        let answers = together(3, async |_| payer.submit("tok_ok").await).await?;
        for answer in &answers {
            assert_eq!(payment_made(answer), None);
            let page = payer.follow(answer).await?;
            page.shows(200, &["Too many cards"]);
            assert!(!page.can_be_paid());
        }
        assert_eq!(merchant.books.operations().await?, operations, "nothing was begun");
        assert_eq!(shown(&merchant, &made).await?["status"], "open");
        // It is this page's doing alone.
        assert!(untouched.open().await?.can_be_paid());
        created(&merchant.pay(500).await?);
    }
    merchant.advance("50 minutes").await?;
    let (made, payer) = link(&merchant, 500).await?;
    for _ in 0..MOST {
        payer.submit("tok_declined").await?;
    }
    assert!(!payer.open().await?.can_be_paid());
    merchant.advance("61 minutes").await?;
    payer.pay("tok_ok").await?.shows(200, &["Paid on"]);
    assert_eq!(shown(&merchant, &made).await?["status"], "paid");
    untouched.pay("tok_ok").await?.shows(200, &["Paid on"]);
    assert_eq!(shown(&merchant, &other).await?["status"], "paid");
    Ok(())
}

#[tokio::test]
async fn a_page_that_takes_no_card_stops_no_collection() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = invoice(&merchant, 500).await?;
    let customer = made["customerId"].as_str().context("a customer")?;
    for _ in 0..MOST {
        payer.submit("tok_declined").await?;
    }
    assert!(!payer.open().await?.can_be_paid());
    created(&merchant.save_card(customer, "tok_ok").await?);
    let schedule = format!("{INVOICES}/{}/schedule", id(&made)?);
    ok(&merchant.api.post(&schedule, json!({"collectAt": "2020-01-01T00:00:00Z"})).await?);
    ok(&merchant.api.send(Method::POST, "/v1/invoices/scheduler/run", None).await?);
    becomes(&merchant, &made, "paid").await?;
    payer.open().await?.shows(200, &["Paid on"]);
    Ok(())
}
