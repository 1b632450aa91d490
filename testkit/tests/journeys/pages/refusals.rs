//! What a page does not take.

use anyhow::Result;
use reqwest::Method;
use testkit::{Client, Cluster};

use super::{link, link_at, shown};
use crate::support::{Merchant, cluster, merchant, together};

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
