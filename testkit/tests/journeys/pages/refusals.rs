//! Input and requests that a page rejects.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::json;
use testkit::{Client, Cluster};

use super::{INVOICES, current, invoice, link, link_at, wait_for_status};
use crate::support::{Merchant, cluster, concurrently, created, id, merchant, ok, redirect_payment_id};

const NUMBER: &str = "4242424242424242";

#[tokio::test]
async fn forms_need_a_token_and_ignore_other_fields() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    let api = cluster().await?.api_url(0);
    let unknown = "mtok_0000000000000000000000000000000000000000";
    for (form, message) in [
        ("", "No card was sent"),
        ("card=tok_ok", "No card was sent"),
        ("token=%00", "No card was sent"),
        ("token=", "No card was sent"),
        ("token=tok_nonsense", "could not be used"),
        (&format!("token={unknown}"), "could not be used"),
    ] {
        let response = payer.send(form).await?;
        let html = String::from_utf8_lossy(&response.bytes);
        assert_eq!(response.status, 422, "{form}: {html}");
        assert!(html.contains(message) && html.contains("<button"), "{form}: {html}");
    }
    for content_type in ["application/json", "text/plain", "multipart/form-data; boundary=x"] {
        let browser = Client::new(&api)?.header("content-type", content_type)?;
        assert_eq!(browser.send(Method::POST, payer.path(), Some(b"token=tok_ok".to_vec())).await?.status, 422);
    }
    assert_eq!(payer.send(&format!("token=tok_ok&more={}", "x".repeat(8 * 1024))).await?.status, 413);
    assert_eq!(merchant.books.operations().await?, 0);
    assert_eq!(current(&merchant, &made).await?["status"], "open");
    // Unknown fields are ignored.
    payer.pay(&format!("tok_ok&currency=JPY&number={NUMBER}")).await?.assert_shows(200, &["Paid on"]);
    let paid = current(&merchant, &made).await?;
    let payment = merchant.payment(paid["paymentId"].as_str().expect("paid")).await?;
    assert_eq!((&payment["amount"], &payment["currency"]), (&500.into(), &"USD".into()));
    Ok(())
}

#[tokio::test]
async fn card_numbers_are_not_stored_logged_or_displayed() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).env("RUST_LOG", "trace").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (_, payer) = link_at(&cluster, &merchant, 500).await?;
    for form in [format!("token={NUMBER}"), format!("number={NUMBER}&cvc=123"), format!("number={NUMBER}&token=tok_ok")]
    {
        let response = payer.send(&form).await?;
        assert!(!String::from_utf8_lossy(&response.bytes).contains(NUMBER));
    }
    let stored: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM operations WHERE account_id = $1 AND to_jsonb(operations)::text LIKE '%' || $2 || '%'",
    )
    .bind(merchant.books.account)
    .bind(NUMBER)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!((stored, merchant.books.operations().await?), (0, 1));
    for process in cluster.processes() {
        assert!(process.log().len() > 100, "the log is not empty");
        assert!(!process.log().contains(NUMBER), "{} logged the card number", process.kind().name());
    }
    let token = payer.token();
    assert!(!cluster.api(0).log().lines().any(|line| line.contains("request completed") && line.contains(token)));
    Ok(())
}

#[tokio::test]
async fn pages_are_rate_limited_by_address_with_retry_after() -> Result<()> {
    let cluster = Cluster::builder().api(1).env("PAGE_RATE_LIMIT", "1").start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let (made, payer) = link_at(&cluster, &merchant, 500).await?;
    let unknown = payer.at("/pay/l/nothing");
    let pages = concurrently(30, async |i| [&payer, &unknown][i % 2].open().await).await?;
    let limited: Vec<_> = pages.iter().filter(|page| page.response.status == 429).collect();
    assert!((20..=25).contains(&limited.len()), "{} of 30 were limited", limited.len());
    for page in limited {
        page.assert_shows(429, &["One moment"]);
        assert!(
            page.response.header("retry-after").is_some() && page.response.header("content-security-policy").is_some()
        );
    }
    // Logos have a limit of their own.
    let statuses = concurrently(30, async |_| Ok(payer.at("/logos/nothing.png").response().await?.status)).await?;
    let limited = statuses.iter().filter(|status| **status == 429).count();
    assert!((20..=25).contains(&limited), "{limited} of 30 were limited");
    assert!(statuses.iter().all(|status| [404, 429].contains(status)), "{statuses:?}");
    // Requests with an API key are not affected.
    assert_eq!(current(&merchant, &made).await?["status"], "open");
    Ok(())
}

/// Declines per page and hour.
const MAX_DECLINES: usize = 10;

#[tokio::test]
async fn pages_block_card_testing_after_ten_declines() -> Result<()> {
    let merchant = merchant().await?;
    let (other, untouched) = link(&merchant, 500).await?;
    for (made, payer) in [link(&merchant, 500).await?, invoice(&merchant, 500).await?] {
        for nth in 1..=MAX_DECLINES {
            let page = payer.pay("tok_declined").await?;
            page.assert_shows(200, &["declined by its bank"]);
            assert_eq!(page.has_pay_button(), nth < MAX_DECLINES, "after {nth}");
        }
        payer.open().await?.assert_shows(200, &["Too many cards were declined here", "try again in an hour, or ask"]);
        // A form that was opened before the block is rejected too.
        let operations = merchant.books.operations().await?;
        let responses = concurrently(3, async |_| payer.submit("tok_ok").await).await?;
        for response in &responses {
            assert_eq!(redirect_payment_id(response), None);
            let page = payer.follow(response).await?;
            page.assert_shows(200, &["Too many cards"]);
            assert!(!page.has_pay_button());
        }
        assert_eq!(merchant.books.operations().await?, operations, "no operation was created");
        assert_eq!(current(&merchant, &made).await?["status"], "open");
        // Other pages and the API are not affected.
        assert!(untouched.open().await?.has_pay_button());
        created(&merchant.pay(500).await?);
    }
    merchant.advance("50 minutes").await?;
    let (made, payer) = link(&merchant, 500).await?;
    for _ in 0..MAX_DECLINES {
        payer.submit("tok_declined").await?;
    }
    assert!(!payer.open().await?.has_pay_button());
    merchant.advance("61 minutes").await?;
    payer.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
    assert_eq!(current(&merchant, &made).await?["status"], "paid");
    untouched.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
    assert_eq!(current(&merchant, &other).await?["status"], "paid");
    Ok(())
}

#[tokio::test]
async fn blocked_pages_do_not_stop_collection() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = invoice(&merchant, 500).await?;
    let customer = made["customerId"].as_str().context("a customer")?;
    for _ in 0..MAX_DECLINES {
        payer.submit("tok_declined").await?;
    }
    assert!(!payer.open().await?.has_pay_button());
    created(&merchant.save_card(customer, "tok_ok").await?);
    let schedule = format!("{INVOICES}/{}/schedule", id(&made)?);
    ok(&merchant.api.post(&schedule, json!({"collectAt": "2020-01-01T00:00:00Z"})).await?);
    ok(&merchant.api.send(Method::POST, "/v1/invoices/scheduler/run", None).await?);
    wait_for_status(&merchant, &made, "paid").await?;
    payer.open().await?.assert_shows(200, &["Paid on"]);
    Ok(())
}
