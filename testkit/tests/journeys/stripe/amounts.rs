//! Amounts that Stripe does not charge exactly, such as 1.234 KWD: refused with the field wherever one enters, and never
//! sent.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::stripe::CardBehavior;

use super::{shared, shop};
use crate::support::{Payer, accepted, created, eventually, id, invalid, ok, redirect_payment_id, uuid, with};

#[tokio::test]
async fn objects_of_other_amounts_are_refused_by_field() -> Result<()> {
    let shop = shop().await?;
    let api = &shop.merchant.api;
    let customer = shop.merchant.customer().await?;
    let plan = json!({"name": "Gold", "currency": "KWD", "interval": "month"});
    let link = json!({"currency": "KWD"});
    let invoice = json!({"customerId": customer, "currency": "KWD"});
    for (path, body) in [("/v1/plans", plan), ("/v1/payment_links", link), ("/v1/invoices", invoice.clone())] {
        invalid(&api.post(path, with(body.clone(), "amount", 1234)).await?, "amount");
        created(&api.post(path, with(body, "amount", 1230)).await?);
    }
    // Only whole ariary are accepted.
    invalid(&api.post("/v1/payment_links", json!({"currency": "MGA", "amount": 50_050})).await?, "amount");
    created(&api.post("/v1/payment_links", json!({"currency": "MGA", "amount": 50_000})).await?);
    let items = |unit: i64| json!([{"description": "Tea", "quantity": 1, "unitAmount": unit}]);
    let template = json!({"currency": "KWD"});
    let recurring = json!({"customerId": customer, "cadence": {"unit": "monthly"}});
    for (unit, tax, discount, field) in
        [(1234, None, None, "items"), (1230, Some(5), None, "amountTax"), (1230, Some(10), Some(4), "amountDiscount")]
    {
        let of = |body: &Value| {
            with(
                with(with(body.clone(), "items", items(unit)), "amountTax", json!(tax)),
                "amountDiscount",
                json!(discount),
            )
        };
        invalid(&api.post("/v1/invoices", of(&invoice)).await?, field);
        let body = with(recurring.clone(), "template", of(&template));
        invalid(&api.post("/v1/recurring_invoices", body).await?, &format!("template.{field}"));
    }
    // Only the total is charged.
    let rest = with(with(invoice, "items", items(1234)), "amountTax", 6);
    assert_eq!(created(&api.post("/v1/invoices", rest).await?)["amount"], 1240);
    let body = with(recurring, "template", with(template.clone(), "items", items(1230)));
    let path = format!("/v1/recurring_invoices/{}", id(created(&api.post("/v1/recurring_invoices", body).await?))?);
    let change = json!({"template": with(template, "items", items(1234))});
    invalid(&api.post(&path, change).await?, "template.items");
    ok(&api.post(&path, json!({"name": "Rent"})).await?);
    Ok(())
}

#[tokio::test]
async fn other_amounts_are_not_charged_captured_or_refunded() -> Result<()> {
    let shop = shop().await?;
    let merchant = &shop.merchant;
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, &shop.token(CardBehavior::Approve).await?).await?))?;
    let token = shop.token(CardBehavior::Approve).await?;
    let body = json!({"amount": 1234, "currency": "KWD"});
    for (field, source) in
        [("paymentMethodId", card.as_str()), ("paymentToken", "pm_card_visa"), ("paymentToken", token.as_str())]
    {
        invalid(&merchant.api.post("/v1/payments", with(body.clone(), field, source)).await?, "amount");
    }
    assert_eq!(merchant.books.operations().await?, 1, "only the card was saved");
    // The token is not spent.
    let body = json!({"amount": 12_340, "currency": "KWD", "paymentToken": token, "capture": false});
    let held = id(created(&merchant.api.post("/v1/payments", body).await?))?;
    invalid(&merchant.capture(&held, Some(12_335)).await?, "amount");
    assert_eq!(ok(&merchant.capture(&held, Some(12_330)).await?)["status"], "pending_settlement");
    invalid(&merchant.refund(&held, Some(5)).await?, "amount");
    accepted(&merchant.refund(&held, Some(10)).await?);
    merchant.wait_for_status(&held, "partially_refunded").await?;
    assert_eq!(shop.records(), "12340 succeeded, refund 10 succeeded");
    accepted(&merchant.refund(&held, None).await?);
    merchant.wait_for_status(&held, "refunded").await.map(drop)
}

#[tokio::test]
async fn what_a_page_adds_is_rounded_to_what_stripe_charges() -> Result<()> {
    let shop = shop().await?;
    let cluster = &shared().await?.cluster;
    let modifiers = r#"{"surcharge": {"type": "percent", "value": 250}, "tax": {"type": "percent", "value": 825},
                        "tip": {"type": "fixed", "value": 1235}}"#;
    cluster.ctl(&["accounts", "set", &shop.merchant.account.id, "--modifiers", modifiers]).await?;
    let link = shop.merchant.api.post("/v1/payment_links", json!({"amount": 12_300, "currency": "KWD"})).await?;
    let payer = Payer::for_object(created(&link), &cluster.api_url(0))?;
    let token = shop.token(CardBehavior::Approve).await?;
    let response = payer.submit(&format!("{token}&tip=1&amount=14860")).await?;
    let payment = shop.merchant.payment(&redirect_payment_id(&response).context("a payment")?).await?;
    let parts = ["amountBase", "amountSurcharge", "amountTax", "amountTip"].map(|name| payment[name].clone());
    assert_eq!(json!(parts), json!([12_300, 310, 1_010, 1_240]));
    assert_eq!((&payment["status"], &payment["amount"]), (&json!("pending_settlement"), &json!(14_860)));
    assert_eq!(shop.records(), "14860 succeeded");
    Ok(())
}

#[tokio::test]
async fn amounts_from_before_a_move_to_stripe_are_not_sent() -> Result<()> {
    let shop = shop().await?;
    let merchant = &shop.merchant;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, &shop.token(CardBehavior::Approve).await?).await?);
    let body = json!({"customerId": customer, "currency": "KWD", "amount": 1230});
    let invoice = created(&merchant.api.post("/v1/invoices", body).await?).clone();
    let plan = json!({"name": "Gold", "amount": 1230, "currency": "KWD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let (invoice_id, path) = (uuid(&id(&invoice)?)?, format!("/v1/invoices/{}", id(&invoice)?));
    // As if they had been created while the account was at another provider.
    for (change, object) in [
        ("UPDATE invoices SET amount = 1234 WHERE id = $1", invoice_id),
        ("UPDATE plans SET amount = 1234 WHERE id = $1", uuid(&plan)?),
    ] {
        sqlx::query(change).bind(object).execute(&merchant.books.db).await?;
    }
    let schedule = json!({"collectAt": "2020-01-01T00:00:00Z"});
    invalid(&merchant.api.post(&format!("{path}/schedule"), schedule).await?, "amount");
    let subscription = json!({"customerId": customer, "planId": plan});
    invalid(&merchant.api.post("/v1/subscriptions", subscription).await?, "amount");
    let payer = Payer::for_object(&invoice, &shared().await?.cluster.api_url(0))?;
    payer.open().await?.assert_shows(200, &["cannot be paid on this page"]);
    assert_eq!(payer.submit(&shop.token(CardBehavior::Approve).await?).await?.status, 422);

    // Or scheduled there.
    let due = "UPDATE invoices SET status = 'scheduled', collect_at = now(), next_attempt_at = now() WHERE id = $1";
    sqlx::query(due).bind(invoice_id).execute(&merchant.books.db).await?;
    let attempt = eventually("a failed attempt", async || {
        let page = merchant.api.get(&format!("{path}/attempts")).await?;
        let attempt = ok(&page)["data"].as_array().and_then(|attempts| attempts.first().cloned());
        Ok(attempt.filter(|attempt| attempt["status"] == "failed"))
    })
    .await?;
    let found = (&attempt["declineCode"], &attempt["declineType"], attempt.get("paymentId"));
    assert_eq!(found, (&json!("amount_not_supported"), &json!("hard"), None), "{attempt}");
    let current = ok(&merchant.api.get(&path).await?).clone();
    assert_eq!(current["status"], "scheduled");
    assert_eq!((attempt.get("nextAttemptAt"), current.get("nextAttemptAt")), (None, None), "it is not retried");
    assert_eq!(shop.records(), "");
    Ok(())
}
