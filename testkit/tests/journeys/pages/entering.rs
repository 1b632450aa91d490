//! The form for a card: nothing of a card can be sent by it, and each test card ends as its cardholder is told.

use anyhow::{Context, Result};

use super::{invoice, link};
use crate::support::{Payer, cluster, merchant, payment_made};

/// Every `<input …>` and `<select …>` of a page.
fn controls(html: &str) -> Vec<&str> {
    let tags = html.match_indices('<').map(|(at, _)| html[at..].split('>').next().unwrap_or_default());
    tags.filter(|tag| ["<input", "<select", "<textarea", "<button"].iter().any(|kind| tag.starts_with(kind))).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

#[tokio::test]
async fn nothing_of_a_card_has_a_name_that_a_form_would_send() -> Result<()> {
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
        for (id, fills) in expected {
            let tag = card.iter().find(|tag| attribute(tag, "id") == Some(id)).context(id)?;
            assert_eq!(attribute(tag, "autocomplete"), Some(fills));
            assert!(page.html.contains(&format!("<label for=\"{id}\">")), "{id} has no label");
        }
        assert_eq!(card.len(), expected.len() + 1, "and the button: {card:?}");
        page.shows(
            200,
            &[
                "id=\"card-error\" class=\"fault\" role=\"alert\"",
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
async fn each_test_card_ends_as_its_cardholder_is_told() -> Result<()> {
    let merchant = merchant().await?;
    for (token, last4, code, kind, says) in [
        ("tok_declined", "0002", "declined", "soft", "declined by its bank"),
        ("tok_insufficient", "9995", "insufficient_funds", "soft", "not enough money"),
        ("tok_lost", "9987", "lost_card", "hard", "declined by its bank"),
        ("tok_stolen", "9979", "stolen_card", "hard", "declined by its bank"),
        ("tok_expired", "0069", "expired_card", "hard", "it has expired"),
        ("tok_incorrect_cvc", "0127", "incorrect_cvc", "hard", "security code is not right"),
        ("tok_authentication", "3155", "authentication_required", "hard", "wants a confirmation"),
    ] {
        let (_, payer) = link(&merchant, 500).await?;
        let answer = payer.submit(token).await?;
        let page = payer.follow(&answer).await?;
        page.shows(200, &[says, "Nothing was charged", "role=\"alert\""]);
        for merchants in ["lost", "stolen"] {
            assert!(!page.html.contains(merchants), "a cardholder is told {merchants:?}");
        }
        assert!(page.can_be_paid() && !page.html.contains("id=\"receipt\""), "{token}");
        let payment = merchant.payment(&payment_made(&answer).context("a payment")?).await?;
        assert_eq!((&payment["status"], &payment["declineCode"]), (&"declined".into(), &code.into()));
        assert_eq!((&payment["declineType"], &payment["card"]["last4"]), (&kind.into(), &last4.into()), "{token}");
    }
    Ok(())
}

#[tokio::test]
async fn a_receipt_says_what_went_back_since() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = invoice(&merchant, 500).await?;
    let answer = payer.submit("tok_ok").await?;
    let payment = payment_made(&answer).context("a payment")?;
    let page = payer.follow(&answer).await?;
    page.shows(200, &["id=\"receipt\"", "<dt>Paid to</dt><dd><bdi>Test</bdi>", "INV-000001", &payment]);
    assert!(!page.html.contains("Given back"));
    assert_eq!(merchant.void(&payment).await?.status, 200);
    payer.follow(&answer).await?.shows(200, &["Paid on", "Given back since</dt><dd>$5.00"]);
    Ok(())
}

/// The script is told what the form would be led to, so that the page can stay as it is after a decline.
#[tokio::test]
async fn the_script_of_a_page_is_told_in_json() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 500).await?;
    let script = payer.script()?;
    let says = async |form: &str| -> Result<(u16, serde_json::Value)> {
        let answer = script.send(form).await?;
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        Ok((answer.status, answer.body))
    };
    let (status, declined) = says("token=tok_insufficient&amount=500").await?;
    assert!(status == 200 && declined["lines"][0].as_str().is_some_and(|line| line.contains("not enough money")));
    let (status, refused) = says("token=tok_nonsense&amount=500").await?;
    assert!(status == 422 && refused["lines"][0].as_str().is_some_and(|line| line.contains("Nothing was charged")));
    assert_eq!(says("token=tok_ok&amount=501").await?, (200, serde_json::json!({"submit": true})));
    assert_eq!(merchant.books.operations().await?, 1, "a decline, and nothing else");
    let (status, paid) = says("token=tok_ok&amount=500").await?;
    let place = paid["location"].as_str().context("a place")?.to_owned();
    assert!(status == 200 && place.starts_with(&format!("{}?payment=pay_", payer.token())), "{paid}");
    assert_eq!(says("token=tok_ok&amount=500").await?, (200, serde_json::json!({"location": payer.token()})));
    payer.at(&format!("/pay/l/{place}")).open().await?.shows(200, &["Paid on", "id=\"receipt\""]);
    Ok(())
}

/// What a browser is shown of its own payment while its bank asks.
fn asked(payer: &Payer, payment: &str) -> Payer {
    payer.at(&format!("{}?payment={payment}", payer.path()))
}

#[tokio::test]
async fn who_is_asked_by_his_bank_is_led_there_and_nobody_else() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 500).await?;
    let declined = payment_made(&payer.submit("tok_declined").await?).context("a payment")?;
    // The mock asks nobody, so it is written as if it had.
    sqlx::query(
        "UPDATE payments SET status = 'requires_action', decline_code = NULL, decline_type = NULL,
                action_token = 'a-token', challenge_url = 'https://bank.example/'
         WHERE id = $1",
    )
    .bind(crate::support::uuid(&declined)?)
    .execute(&merchant.books.db)
    .await?;
    let page = asked(&payer, &declined).open().await?;
    page.shows(200, &["role=\"status\"", "href=\"../a/a-token\">Continue with your bank</a>"]);
    assert!(!page.can_be_paid() && page.answer.header("refresh").is_some());
    let stranger = payer.open().await?;
    stranger.shows(200, &["being processed"]);
    assert!(!stranger.html.contains("a-token") && !stranger.can_be_paid());
    Ok(())
}
