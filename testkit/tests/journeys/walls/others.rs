//! What is no route with an id: pages, names that each account gives for itself, clocks, and runs.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::estate::unknown;
use super::{Estate, quiet, told};
use crate::support::{Payer, created, id, ok, payment, sale};

/// What a merchant names is named in his own account: of others with that name he hears nothing.
#[tokio::test]
async fn names_are_free_in_each_account() -> Result<()> {
    let cluster = quiet().await?;
    let (own, of) = (Estate::new(&cluster).await?, Estate::new(&cluster).await?);
    let name = of.own("externalId");
    let keyed = of.merchant.pay_once("one-key", sale(100)).await?;
    let before = of.books().await?;

    let body = json!({"email": "eve@example.com", "externalId": name});
    let customer = id(created(&own.merchant.api.post("/v1/customers", body).await?))?;
    let found = own.merchant.api.get(&format!("/v1/customers?externalId={name}")).await?;
    assert_eq!(ok(&found)["data"][0]["id"], json!(customer));

    // The same key with the same body, and with another.
    for (key, amount) in [("one-key", 100), ("other-key", 200)] {
        let mine = own.merchant.pay_once(key, sale(amount)).await?;
        assert_ne!(created(&mine)["id"], created(&keyed)["id"]);
        assert!(mine.header("idempotent-replayed").is_none());
    }
    let mine = own.merchant.pay_once("one-key", sale(100)).await?;
    assert_eq!(mine.header("idempotent-replayed"), Some("true"));

    // A price is one plan's in its own account.
    let price = json!({"name": "Silver", "amount": 3100, "currency": "USD", "interval": "month"});
    created(&of.merchant.api.post("/v1/plans", price.clone()).await?);
    created(&own.merchant.api.post("/v1/plans", price.clone()).await?);
    assert_eq!(of.merchant.api.post("/v1/plans", price).await?.status, 200);

    // Numbers of invoices are counted in each account.
    let body = json!({"customerId": customer, "currency": "USD", "amount": 700});
    let issued = own.merchant.api.post("/v1/invoices", body).await?;
    assert_eq!(created(&issued)["number"], "INV-000004", "{}", issued.body);

    let mut now = of.books().await?;
    // The other's plan, made in between.
    now.insert("plans".to_owned(), before["plans"].clone());
    assert_eq!(now, before);
    Ok(())
}

/// Runs and clocks are those of the account that asks.
#[tokio::test]
async fn a_run_and_a_clock_are_ones_own() -> Result<()> {
    let cluster = quiet().await?;
    let (own, of) = (Estate::new(&cluster).await?, Estate::new(&cluster).await?);
    let before = of.books().await?;
    // One invoice of each is due; each run takes its own.
    let run = own.merchant.api.post("/v1/invoices/scheduler/run", json!({})).await?;
    assert_eq!(ok(&run)["claimed"], 1, "{}", run.body);
    let to = own.merchant.advance("1 year").await?;
    assert!(own.merchant.now().await? >= to);
    of.is_untouched(&before, "another's run and clock").await?;
    assert!(of.merchant.now().await? < to);
    Ok(())
}

/// A page shows its own invoice or link, and takes its own account's cards.
#[tokio::test]
async fn a_page_is_of_one_object_of_one_account() -> Result<()> {
    let cluster = quiet().await?;
    let (own, of) = (Estate::new(&cluster).await?, Estate::new(&cluster).await?);
    let api = cluster.api_url(0);
    let shown = async |estate: &Estate, path: &str, kind: &str| -> Result<Value> {
        let id = estate.owned[kind].last().expect("one").clone();
        Ok(ok(&estate.merchant.api.get(&format!("{path}/{id}")).await?).clone())
    };
    for (path, kind, other) in [("/v1/invoices", "inv", "/pay/l/"), ("/v1/payment_links", "plink", "/pay/i/")] {
        let payer = Payer::of(&shown(&own, path, kind).await?, &api)?;
        let before = of.books().await?;
        // Neither the name of an object nor the address of the other kind opens anything.
        let nothing = payer.at(&format!("{other}nothing")).open().await?;
        for path in [format!("{other}{}", payer.token()), payer.path().replace(payer.token(), &of.own(kind))] {
            let page = payer.at(&path).open().await?;
            assert_eq!(page.answer.status, 404, "{path}");
            assert_eq!(told(&page.answer, "-"), told(&nothing.answer, "-"), "{path}");
        }
        // Whoever names another's payment sees what he sees without.
        let plain = payer.at(&format!("{}?payment={}", payer.path(), unknown("pay"))).open().await?;
        for theirs in &of.owned["pay"] {
            let page = payer.at(&format!("{}?payment={theirs}", payer.path())).open().await?;
            assert_eq!(told(&page.answer, theirs), told(&plain.answer, &unknown("pay")));
        }
        // A card that was read for another account pays nothing here, and stays whole.
        let refused = payer.submit(&of.own("token")).await?;
        assert_eq!(refused.status, 422, "{}", String::from_utf8_lossy(&refused.bytes));
        of.is_untouched(&before, "a page of another").await?;
        assert!(payer.open().await?.can_be_paid());
    }
    // It pays where it belongs.
    created(&of.merchant.api.post("/v1/payments", payment(100, &of.own("token"))).await?);
    Ok(())
}

/// A page of another merchant cannot use a session, whatever origin it says it has.
#[tokio::test]
async fn a_session_is_exchanged_by_its_own_account() -> Result<()> {
    let cluster = quiet().await?;
    let (own, of) = (Estate::new(&cluster).await?, Estate::new(&cluster).await?);
    let session = of.own("cs");
    let body = json!({"sessionId": session, "upstreamToken": "tok_ok"}).to_string();
    let foreign = own.browser.api.send(Method::POST, "/v1/tokens", Some(body.into_bytes())).await?;
    assert_eq!(foreign.status, 404, "{}", foreign.body);
    created(&of.browser.exchange(&session, "tok_ok").await?);
    Ok(())
}
