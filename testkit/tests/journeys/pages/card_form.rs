//! The card form: it never submits card data, and it shows the outcome of each test card.

use anyhow::{Context, Result};

use super::{invoice, link};
use crate::support::{Payer, cluster, merchant, redirect_payment_id};

/// Every `<input …>` and `<select …>` of a page.
fn controls(html: &str) -> Vec<&str> {
    let tags = html.match_indices('<').map(|(at, _)| html[at..].split('>').next().unwrap_or_default());
    tags.filter(|tag| ["<input", "<select", "<textarea", "<button"].iter().any(|kind| tag.starts_with(kind))).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[tokio::test]
async fn card_inputs_have_no_name_attribute() -> Result<()> {
    let merchant = merchant().await?;
    cluster()
        .await?
        .ctl(&["accounts", "set", &merchant.account.id, "--modifiers", r#"{"tip":{"type":"fixed","value":100}}"#])
        .await?;
    for (_, payer) in [link(&merchant, 500).await?, invoice(&merchant, 500).await?] {
        let page = payer.open().await?;
        let controls = controls(&page.html);
        let named: Vec<_> = controls.iter().filter_map(|tag| attribute(tag, "name")).collect();
        assert_eq!(named, ["token", "amount", "tip"]);
        let card: Vec<_> = controls.iter().filter(|tag| attribute(tag, "name").is_none()).collect();
        let expected = [
            ("card-number", "cc-number"),
            ("card-expiry", "cc-exp"),
            ("card-cvc", "cc-csc"),
            ("card-name", "cc-name"),
            ("card-country", "country"),
            ("card-postal-code", "postal-code"),
        ];
        for (id, autofill) in expected {
            let tag = card.iter().find(|tag| attribute(tag, "id") == Some(id)).context(id)?;
            assert_eq!(attribute(tag, "autocomplete"), Some(autofill));
            assert!(page.html.contains(&format!("<label for=\"{id}\">")), "{id} has no label");
        }
        assert_eq!(card.len(), expected.len() + 1, "the card inputs and the button: {card:?}");
        page.assert_shows(
            200,
            &[
                "class=\"error\" id=\"card-error\" role=\"alert\"",
                "<noscript>",
                "data-provider=\"mock\"",
                "<html lang=\"en\">",
            ],
        );
        assert!(!page.html.contains("data-app-key") && !page.html.contains("data-token-url"));
    }
    Ok(())
}

#[tokio::test]
async fn each_declining_test_card_shows_its_message() -> Result<()> {
    let merchant = merchant().await?;
    for (token, last4, code, kind, message) in [
        ("tok_declined", "0002", "declined", "soft", "declined by its bank"),
        ("tok_insufficient", "9995", "insufficient_funds", "soft", "insufficient funds"),
        ("tok_lost", "9987", "lost_card", "hard", "declined by its bank"),
        ("tok_stolen", "9979", "stolen_card", "hard", "declined by its bank"),
        ("tok_expired", "0069", "expired_card", "hard", "it has expired"),
        ("tok_incorrect_cvc", "0127", "incorrect_cvc", "hard", "security code is incorrect"),
        ("tok_authentication", "3155", "authentication_required", "hard", "requires a confirmation"),
    ] {
        let (_, payer) = link(&merchant, 500).await?;
        let response = payer.submit(token).await?;
        let page = payer.follow(&response).await?;
        page.assert_shows(200, &[message, "Nothing was charged", "role=\"alert\""]);
        for word in ["lost", "stolen"] {
            assert!(!page.html.contains(word), "the cardholder must not see {word:?}");
        }
        assert!(page.has_pay_button() && !page.html.contains("id=\"receipt\""), "{token}");
        let payment = merchant.payment(&redirect_payment_id(&response).context("a payment")?).await?;
        assert_eq!((&payment["status"], &payment["declineCode"]), (&"declined".into(), &code.into()));
        assert_eq!((&payment["declineType"], &payment["card"]["last4"]), (&kind.into(), &last4.into()), "{token}");
    }
    Ok(())
}

#[tokio::test]
async fn receipts_show_refunds() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = invoice(&merchant, 500).await?;
    let response = payer.submit("tok_ok").await?;
    let payment = redirect_payment_id(&response).context("a payment")?;
    let page = payer.follow(&response).await?;
    page.assert_shows(200, &["id=\"receipt\"", "<dt>Paid to</dt><dd><bdi>Test</bdi>", "INV-000001", &payment]);
    assert!(!page.html.contains("Refunded since"));
    assert_eq!(merchant.void(&payment).await?.status, 200);
    payer
        .follow(&response)
        .await?
        .assert_shows(200, &["Paid on", "Refunded since</dt><dd><span class=\"amount\">$5.00"]);
    Ok(())
}

/// The page script receives the result as JSON, so that the page stays open after a decline.
#[tokio::test]
async fn the_page_script_gets_json_responses() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 500).await?;
    let script = payer.script()?;
    let submit = async |form: &str| -> Result<(u16, serde_json::Value)> {
        let response = script.send(form).await?;
        assert_eq!(response.header("cache-control"), Some("no-store"));
        Ok((response.status, response.body))
    };
    let (status, declined) = submit("token=tok_insufficient&amount=500").await?;
    assert!(status == 200 && declined["lines"][0].as_str().is_some_and(|line| line.contains("insufficient funds")));
    let (status, refused) = submit("token=tok_nonsense&amount=500").await?;
    assert!(status == 422 && refused["lines"][0].as_str().is_some_and(|line| line.contains("Nothing was charged")));
    for wrong in ["501", "%2B500", "5e2", ""] {
        let changed = submit(&format!("token=tok_ok&amount={wrong}")).await?;
        assert_eq!(changed, (409, serde_json::json!({"submit": true})), "{wrong}");
    }
    let (status, without_token) = submit("amount=500").await?;
    assert!(status == 422 && without_token["lines"][0].as_str().is_some_and(|line| line.contains("No card was sent")));
    assert_eq!(merchant.books.operations().await?, 1, "only the decline created an operation");
    let (status, paid) = submit("token=tok_ok&amount=500").await?;
    let location = paid["location"].as_str().context("a location")?.to_owned();
    assert!(status == 200 && location.starts_with(&format!("{}?payment=pay_", payer.token())), "{paid}");
    // A later payer reads that nothing was charged, but not the one whose first response was lost.
    let late = format!("{}?late=1", payer.token());
    assert_eq!(submit("token=tok_ok&amount=500").await?, (200, serde_json::json!({"location": late})));
    let again = submit("token=tok_ok&amount=500&again=1").await?;
    assert_eq!(again, (200, serde_json::json!({"location": payer.token()})));
    payer.at(&format!("/pay/l/{late}")).open().await?.assert_shows(200, &["Already paid. Your card was not charged."]);
    payer.at(&format!("/pay/l/{location}")).open().await?.assert_shows(200, &["Paid on", "id=\"receipt\""]);
    Ok(())
}

/// A form that cannot be read, a page that does not exist, and a method that no page has.
#[tokio::test]
async fn the_page_script_gets_errors_in_json() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    let script = payer.script()?;
    let api = crate::support::cluster().await?.api_url(0);
    let untyped = testkit::Client::new(&api)?.header("accept", "application/json, text/plain;q=0.5")?;
    let too_long = format!("token={}", "x".repeat(9_000));
    for (status, response) in [
        (422, untyped.send(reqwest::Method::POST, payer.path(), None).await?),
        (413, script.send(&too_long).await?),
        (404, script.at("/pay/l/nothing").send("token=tok_ok").await?),
        (405, untyped.send(reqwest::Method::DELETE, payer.path(), None).await?),
    ] {
        assert_eq!(response.status, status, "{}", response.body);
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let lines = response.body["lines"].as_array().context("lines")?;
        assert!(lines.iter().all(|line| line.as_str().is_some_and(|line| !line.is_empty())) && !lines.is_empty());
    }
    assert_eq!(super::current(&merchant, &made).await?["status"], "open");
    Ok(())
}

/// The page of a browser's own payment during a bank challenge.
fn challenge_page(payer: &Payer, payment: &str) -> Payer {
    payer.at(&format!("{}?payment={payment}", payer.path()))
}

#[tokio::test]
async fn only_the_payer_gets_the_link_to_the_bank_challenge() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 500).await?;
    let payment = redirect_payment_id(&payer.submit("tok_declined").await?).context("a payment")?;
    // The mock has no challenges, so the payment is updated directly.
    sqlx::query(
        "UPDATE payments SET status = 'requires_action', decline_code = NULL, decline_type = NULL,
                action_token = 'a-token', challenge_url = 'https://bank.example/'
         WHERE id = $1",
    )
    .bind(crate::support::uuid(&payment)?)
    .execute(&merchant.books.db)
    .await?;
    let page = challenge_page(&payer, &payment).open().await?;
    page.assert_shows(200, &["role=\"status\"", "href=\"../a/a-token\">Continue with your bank</a>"]);
    assert!(!page.has_pay_button() && page.response.header("refresh").is_some());
    let other_visitor = payer.open().await?;
    other_visitor.assert_shows(200, &["being processed"]);
    assert!(!other_visitor.html.contains("a-token") && !other_visitor.has_pay_button());
    Ok(())
}
