//! Surcharge, tax and tip: the displayed total, the charged amount, and the amount paid of the invoice or link.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{INVOICES, current, invoice, ledgers, link};
use crate::support::{Merchant, Payer, cluster, created, id, merchant, redirect_payment_id};

const ALL: &str = r#"{"surcharge": {"type": "percent", "value": 250}, "tax": {"type": "percent", "value": 825},
                      "tip": {"type": "fixed", "value": 200}}"#;

/// A merchant with these amount modifiers.
async fn merchant_with_modifiers(modifiers: &str) -> Result<Merchant> {
    let merchant = merchant().await?;
    cluster().await?.ctl(&["accounts", "set", &merchant.account.id, "--modifiers", modifiers]).await?;
    Ok(merchant)
}

/// Base, surcharge, tax and tip of a payment; absent parts are null.
fn parts(payment: &Value) -> [Value; 4] {
    ["amountBase", "amountSurcharge", "amountTax", "amountTip"].map(|name| payment[name].clone())
}

async fn pay(merchant: &Merchant, payer: &Payer, form: &str) -> Result<(Value, String)> {
    let response = payer.submit(form).await?;
    let payment = merchant.payment(&redirect_payment_id(&response).context("a payment")?).await?;
    Ok((payment, payer.follow(&response).await?.html))
}

#[tokio::test]
async fn surcharge_tax_and_tip_are_displayed_charged_and_reported() -> Result<()> {
    let merchant = merchant_with_modifiers(ALL).await?;
    for (made, payer) in [link(&merchant, 10_000).await?, invoice(&merchant, 10_000).await?] {
        let page = payer.open().await?;
        let rows = ["Amount", "Surcharge", "Tax", "Tip"].into_iter().zip(["$100.00", "$2.50", "$8.25", "$2.00"]);
        for (name, amount) in rows {
            let tip = if name == "Tip" { " data-tip hidden" } else { "" };
            let row = format!("<div{tip}><dt>{name}</dt><dd><span class=\"amount\">{amount}</span></dd></div>");
            page.assert_shows(200, &[&row]);
        }
        page.assert_shows(
            200,
            &[
                "Add a tip of $2.00",
                "data-with=\"Pay $112.75\" data-without=\"Pay $110.75\" disabled>Pay $110.75</button>",
            ],
        );
        page.assert_shows(200, &["name=\"amount\" value=\"11075\" data-sum=\"11275\" data-sum-without=\"11075\""]);

        let (payment, html) = pay(&merchant, &payer, "tok_ok&tip=1&amount=11275").await?;
        assert_eq!(parts(&payment), [json!(10_000), json!(250), json!(825), json!(200)]);
        for amount in ["amount", "amountRequested", "amountCaptured"] {
            assert_eq!(payment[amount], 11_275, "{amount}");
        }
        for text in ["id=\"receipt\"", "$100.00", "$2.50", "$8.25", "$2.00", "$112.75", "Visa ending in 4242"] {
            assert!(html.contains(text), "no {text} in {html}");
        }
        assert!(html.contains(payment["id"].as_str().context("an id")?));
        let of_others = payer.open().await?;
        of_others.assert_shows(200, &["id=\"receipt\"", "$112.75"]);
        assert!(!of_others.html.contains("4242"), "other visitors do not see the card");

        // The invoice or link is paid with its own amount, and the whole charge can be refunded.
        let now = current(&merchant, &made).await?;
        assert_eq!((&now["status"], &now["amount"]), (&json!("paid"), &json!(10_000)));
        if made["object"] == "invoice" {
            assert_eq!(now["amountPaid"], 10_000);
        }
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 11275"]);
        let id = id(&payment)?;
        let events = merchant.books.events(&id).await?;
        let (_, event) = events.first().context("an event")?;
        assert_eq!(parts(event), parts(&payment));
        assert_eq!(merchant.refund(&id, Some(11_276)).await?.status, 422);
        assert_eq!(merchant.refund(&id, Some(11_275)).await?.status, 202);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn tips_are_charged_only_if_chosen() -> Result<()> {
    let merchant = merchant_with_modifiers(ALL).await?;
    let (_, payer) = link(&merchant, 10_000).await?;
    let (payment, html) = pay(&merchant, &payer, "tok_ok&amount=11075").await?;
    assert_eq!(parts(&payment), [json!(10_000), json!(250), json!(825), Value::Null]);
    assert_eq!(payment["amount"], 11_075);
    assert!(html.contains("$110.75") && !html.contains("Tip"));
    // Without a chosen tip and other modifiers, the charge has no parts.
    let merchant = merchant_with_modifiers(r#"{"tip": {"type": "percent", "value": 1500}}"#).await?;
    let (_, payer) = link(&merchant, 1_000).await?;
    let (payment, _) = pay(&merchant, &payer, "tok_ok").await?;
    assert_eq!((parts(&payment), &payment["amount"]), ([const { Value::Null }; 4], &json!(1_000)));
    Ok(())
}

#[tokio::test]
async fn invoices_with_their_own_tax_get_no_page_tax() -> Result<()> {
    let merchant = merchant_with_modifiers(r#"{"tax": {"type": "percent", "value": 825}}"#).await?;
    let customer = merchant.customer().await?;
    for (tax, amount, added) in
        [(json!(100), 1_100, Value::Null), (json!(0), 1_000, Value::Null), (Value::Null, 1_000, json!(83))]
    {
        let body = json!({
            "customerId": customer, "currency": "USD", "amountTax": tax,
            "items": [{"description": "Tea", "quantity": 1, "unitAmount": 1_000}],
        });
        let made = created(&merchant.api.post(INVOICES, body).await?).clone();
        let payer = Payer::for_object(&made, &cluster().await?.api_url(0))?;
        let (payment, _) = pay(&merchant, &payer, "tok_ok").await?;
        assert_eq!(payment["amountTax"], added, "{tax}");
        assert_eq!(payment["amount"], amount + added.as_i64().unwrap_or(0));
        assert_eq!(current(&merchant, &made).await?["amountPaid"], amount);
    }
    Ok(())
}

#[tokio::test]
async fn charges_without_modifiers_have_no_amount_parts() -> Result<()> {
    for modifiers in ["{}", r#"{"tax": {"type": "percent", "value": 0}, "tip": {"type": "fixed", "value": 0}}"#] {
        let merchant = merchant_with_modifiers(modifiers).await?;
        let (_, payer) = link(&merchant, 500).await?;
        let page = payer.open().await?;
        assert!(!page.html.contains("class=\"sum\"") && !page.html.contains("name=\"tip\""));
        let (payment, html) = pay(&merchant, &payer, "tok_ok&amount=500&tip=1").await?;
        assert_eq!(parts(&payment), [const { Value::Null }; 4]);
        assert!(html.contains("Total paid</dt><dd><span class=\"amount\">$5.00") && !html.contains("<dt>Amount"));
    }
    // Modifiers apply to pages only, not to payments that the merchant creates.
    let merchant = merchant_with_modifiers(ALL).await?;
    let payment = merchant.payment(&merchant.charge(500).await?).await?;
    assert_eq!((parts(&payment), &payment["amount"]), ([const { Value::Null }; 4], &json!(500)));
    Ok(())
}

#[tokio::test]
async fn amounts_other_than_the_displayed_total_are_rejected() -> Result<()> {
    let merchant = merchant_with_modifiers(ALL).await?;
    let (made, payer) = link(&merchant, 10_000).await?;
    for (form, box_checked) in [
        ("token=tok_ok&amount=11074", false),
        ("token=tok_ok&amount=10000", false),
        ("token=tok_ok&amount=11275", false),
        ("token=tok_ok&amount=11075&tip=1", true),
        ("token=tok_ok&amount=", false),
        ("token=tok_ok&amount=110.75", false),
    ] {
        let response = payer.send(form).await?;
        let html = String::from_utf8(response.bytes.clone())?;
        assert_eq!(response.status, 409, "{form}");
        assert!(html.contains("The amount has changed") && html.contains("<button"), "{form}: {html}");
        // The tip checkbox keeps its state.
        assert_eq!(html.contains("autocomplete=\"off\" checked>"), box_checked, "{form}: {html}");
    }
    // The merchant changes the modifiers while the page is open.
    let open_page = payer.open().await?;
    assert!(open_page.html.contains("$110.75"));
    cluster().await?.ctl(&["accounts", "set", &merchant.account.id, "--modifiers", "{}"]).await?;
    assert_eq!(payer.submit("tok_ok&amount=11075").await?.status, 409);
    assert_eq!(merchant.books.operations().await?, 0, "no operation was created");
    payer.pay("tok_ok&amount=10000").await?.assert_shows(200, &["Paid on"]);
    assert_eq!(ledgers(&merchant, &made).await?, ["sale 10000"]);
    Ok(())
}

#[tokio::test]
async fn totals_beyond_the_maximum_amount_are_rejected() -> Result<()> {
    let merchant =
        merchant_with_modifiers(r#"{"surcharge": {"type": "percent", "value": 9223372036854775807}}"#).await?;
    let (made, payer) = link(&merchant, 9_007_199_254_740_991).await?;
    let page = payer.open().await?;
    page.assert_shows(200, &["cannot be paid on this page", "contact <bdi>Test</bdi>"]);
    assert!(!page.has_pay_button());
    assert_eq!(payer.submit("tok_ok").await?.status, 422);
    assert_eq!(merchant.books.operations().await?, 0);
    assert_eq!(current(&merchant, &made).await?["status"], "open");
    Ok(())
}

#[tokio::test]
async fn partial_approvals_of_the_total_are_reversed() -> Result<()> {
    let merchant = merchant_with_modifiers(ALL).await?;
    for (made, payer) in [link(&merchant, 10_000).await?, invoice(&merchant, 10_000).await?] {
        let response = payer.submit("tok_partial&tip=1").await?;
        let payment = redirect_payment_id(&response).context("a payment")?;
        let cancelled = merchant.wait_for_status(&payment, "cancelled").await?;
        assert_eq!((&cancelled["amountRequested"], &cancelled["amount"]), (&json!(11_275), &json!(5_637)));
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 5637 voided, void 5637"]);
        payer.pay("tok_ok").await?.assert_shows(200, &["Paid on"]);
    }
    Ok(())
}
