//! `DELETE /v1/customers/{id}`: what prevents it, what is not found afterwards, and what happens beside it.

use anyhow::Result;
use reqwest::Method;
use serde_json::{Value, json};

use super::CUSTOMERS;
use crate::support::{
    Merchant, Payer, cluster, conflict, created, error_text, eventually, id, ids, merchant, not_found, ok, payment,
    refused, uuid, with,
};

async fn delete(merchant: &Merchant, customer: &str) -> Result<testkit::Response> {
    merchant.api.delete(&format!("{CUSTOMERS}/{customer}")).await
}

async fn act(merchant: &Merchant, path: &str) -> Result<()> {
    ok(&merchant.api.send(Method::POST, path, None).await?);
    Ok(())
}

async fn plan(merchant: &Merchant) -> Result<String> {
    let plan = json!({"name": "Gold", "amount": 900, "currency": "USD", "interval": "month"});
    id(&merchant.api.post("/v1/plans", plan).await?.body)
}

fn recurring_invoice(customer: &str) -> Value {
    json!({
        "customerId": customer, "cadence": {"unit": "monthly", "interval": 1}, "startDate": "2030-01-01",
        "mode": "auto_send",
        "template": {"currency": "USD", "paymentTerms": "net_30",
            "items": [{"description": "Rent", "quantity": 1, "unitAmount": 100}]},
    })
}

#[tokio::test]
async fn what_may_still_bill_or_charge_prevents_the_deletion() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let is_prevented_by = async |object: &str| {
        let response = delete(&merchant, &customer).await?;
        conflict(&response);
        assert!(
            response.body["error"]["message"].as_str().is_some_and(|text| text.contains(object)),
            "{}",
            response.body
        );
        ok(&merchant.api.get(&format!("{CUSTOMERS}/{customer}")).await?);
        anyhow::Ok(())
    };
    let subscription = json!({"customerId": customer, "planId": plan(&merchant).await?, "startAt": "2030-01-01"});
    let subscription = id(created(&merchant.api.post("/v1/subscriptions", subscription).await?))?;
    is_prevented_by(&subscription).await?;
    act(&merchant, &format!("/v1/subscriptions/{subscription}/cancel")).await?;

    let recurring = id(created(&merchant.api.post("/v1/recurring_invoices", recurring_invoice(&customer)).await?))?;
    is_prevented_by(&recurring).await?;
    act(&merchant, &format!("/v1/recurring_invoices/{recurring}/pause")).await?;
    is_prevented_by(&recurring).await?;
    act(&merchant, &format!("/v1/recurring_invoices/{recurring}/cancel")).await?;

    let invoice = json!({"customerId": customer, "amount": 700, "currency": "USD"});
    let invoice = id(created(&merchant.api.post("/v1/invoices", invoice).await?))?;
    let schedule = json!({"collectAt": "2030-01-01T00:00:00Z"});
    ok(&merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), schedule).await?);
    is_prevented_by(&invoice).await?;
    act(&merchant, &format!("/v1/invoices/{invoice}/cancel_schedule")).await?;

    let hold = with(with(payment(500, "tok_ok"), "customerId", customer.as_str()), "capture", false);
    let held = id(created(&merchant.api.post("/v1/payments", hold).await?))?;
    is_prevented_by(&held).await?;
    ok(&merchant.void(&held).await?);

    merchant.mock(cluster().await?, &["--latency-ms", "3000"]).await?;
    let sale = with(payment(300, "tok_ok"), "customerId", customer.as_str());
    let in_progress = async || {
        let payment = eventually("a payment", async || {
            Ok(ids(&merchant.api.get("/v1/payments?status=processing").await?).first().cloned())
        });
        is_prevented_by(&payment.await?).await
    };
    let (paid, ()) = tokio::try_join!(merchant.api.post("/v1/payments", sale), in_progress())?;
    created(&paid);
    let saving = async || {
        let cards = "SELECT count(*) FROM payment_methods WHERE account_id = $1 AND status = 'processing'";
        let count = async || {
            sqlx::query_scalar::<_, i64>(cards).bind(merchant.books.account).fetch_one(&merchant.books.db).await
        };
        eventually("a card", async || Ok((count().await? == 1).then_some(()))).await?;
        is_prevented_by("pm_").await
    };
    let (saved, ()) = tokio::try_join!(merchant.save_card(&customer, "tok_ok"), saving())?;
    created(&saved);
    ok(&delete(&merchant, &customer).await?);
    Ok(())
}

#[tokio::test]
async fn a_deleted_customer_is_not_found_and_its_external_id_is_free() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let body = json!({"email": "gone@example.com", "externalId": "u-1"});
    let customer = id(created(&merchant.api.post(CUSTOMERS, body.clone()).await?))?;
    let later = id(created(&merchant.api.post(CUSTOMERS, json!({"email": "stays@example.com"})).await?))?;
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let address = json!({"customerId": customer, "line1": "12 Elm Street", "country": "GB"});
    let address_id = id(created(&merchant.api.post("/v1/addresses", address.clone()).await?))?;
    let sale = json!({"amount": 500, "currency": "USD", "paymentMethodId": card});
    let paid = id(created(&merchant.api.post("/v1/payments", sale.clone()).await?))?;

    let (foreign, unknown) = (delete(&other_merchant, &customer).await?, "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV");
    not_found(&foreign);
    let missing = delete(&other_merchant, unknown).await?;
    assert_eq!(error_text(&foreign, &customer), error_text(&missing, unknown));
    let deleted = json!({"id": customer, "object": "customer", "deleted": true});
    assert_eq!(ok(&delete(&merchant, &customer).await?), &deleted);

    not_found(&delete(&merchant, &customer).await?);
    for path in [
        format!("{CUSTOMERS}/{customer}"),
        format!("/v1/payment_methods/{card}"),
        format!("/v1/payment_methods?customerId={customer}"),
        format!("/v1/addresses/{address_id}"),
        format!("/v1/addresses?customerId={customer}"),
    ] {
        not_found(&merchant.api.get(&path).await?);
    }
    let plan = plan(&merchant).await?;
    for (path, body) in [
        (format!("{CUSTOMERS}/{customer}"), json!({"name": "Ada"})),
        ("/v1/payment_methods".to_owned(), json!({"customerId": customer, "paymentToken": "tok_ok"})),
        (format!("/v1/payment_methods/{card}"), json!({"externalId": "c-1"})),
        ("/v1/payments".to_owned(), sale),
        ("/v1/payments".to_owned(), with(payment(500, "tok_ok"), "customerId", customer.as_str())),
        ("/v1/addresses".to_owned(), address),
        (format!("/v1/addresses/{address_id}"), json!({"city": "London"})),
        (format!("/v1/addresses/{address_id}/default"), json!({"type": "billing"})),
        ("/v1/invoices".to_owned(), json!({"customerId": customer, "amount": 700, "currency": "USD"})),
        ("/v1/subscriptions".to_owned(), json!({"customerId": customer, "planId": plan})),
        ("/v1/recurring_invoices".to_owned(), recurring_invoice(&customer)),
    ] {
        not_found(&merchant.api.post(&path, body).await?);
    }
    for (query, expected) in [("", vec![&later]), ("email=gone@example.com", vec![]), ("externalId=u-1", vec![])] {
        assert_eq!(ids(&merchant.api.get(&format!("{CUSTOMERS}?{query}")).await?).iter().collect::<Vec<_>>(), expected);
    }
    let older = merchant.api.get(&format!("{CUSTOMERS}?startingAfter={customer}")).await?;
    assert_eq!(ids(&older), [""; 0], "a list under way goes on");
    assert_eq!(ids(&merchant.api.get(&format!("/v1/payments?customerId={customer}")).await?), [paid.as_str()]);
    assert_eq!(merchant.refund(&paid, None).await?.status, 202);
    created(&merchant.api.post(CUSTOMERS, body).await?);
    Ok(())
}

#[tokio::test]
async fn an_open_invoice_of_a_deleted_customer_is_paid_on_its_page() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let invoice = json!({"customerId": customer, "amount": 700, "currency": "USD"});
    let invoice = created(&merchant.api.post("/v1/invoices", invoice).await?).clone();
    ok(&delete(&merchant, &customer).await?);
    let payer = Payer::for_object(&invoice, &cluster().await?.api_url(0))?;
    payer.pay("tok_lost").await?.assert_shows(200, &["declined"]);
    payer.pay("tok_ok").await?.assert_shows(200, &[]);
    let path = format!("/v1/invoices/{}", id(&invoice)?);
    eventually("a paid invoice", async || Ok((merchant.api.get(&path).await?.body["status"] == "paid").then_some(())))
        .await
}

/// Whatever is created at the same time is created before the deletion, which then finds it, or not at all.
#[tokio::test]
async fn creations_beside_a_deletion_leave_one_state() -> Result<()> {
    let merchant = merchant().await?;
    let plan = plan(&merchant).await?;
    for round in 0..3 {
        let customer = merchant.customer().await?;
        let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
        // The first do not prevent a deletion.
        let bodies = [
            ("/v1/addresses", json!({"customerId": customer, "line1": "12 Elm Street", "country": "GB"})),
            ("/v1/invoices", json!({"customerId": customer, "amount": 700, "currency": "USD"})),
            ("/v1/subscriptions", json!({"customerId": customer, "planId": plan, "startAt": "2030-01-01"})),
            ("/v1/payments", json!({"amount": 500, "currency": "USD", "paymentMethodId": card})),
            ("/v1/payments", with(payment(500, "tok_ok"), "customerId", customer.as_str())),
            ("/v1/payment_methods", json!({"customerId": customer, "paymentToken": "tok_ok"})),
        ];
        let bodies = &bodies[..if round == 0 { 2 } else { bodies.len() }];
        let creations = crate::support::concurrently(30, async |n| {
            let (path, body) = &bodies[n % bodies.len()];
            for _ in 0..5 {
                let response = merchant.api.post(path, body.clone()).await?;
                if response.status != 201 {
                    not_found(&response);
                    return Ok(());
                }
                if *path == "/v1/subscriptions" {
                    act(&merchant, &format!("{path}/{}/cancel", id(&response.body)?)).await?;
                }
            }
            Ok(())
        });
        let deletion = eventually("no obstacle", async || {
            let response = delete(&merchant, &customer).await?;
            if response.status != 200 {
                refused(&response, 409, "conflict");
            }
            Ok((response.status == 200).then_some(()))
        });
        tokio::try_join!(creations, deletion)?;
        let remains: i64 = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM subscriptions WHERE customer_id = $1 AND status <> 'cancelled')
                  + (SELECT count(*) FROM payment_methods WHERE customer_id = $1 AND detached_at IS NULL)
                  + (SELECT count(*) FROM payments WHERE customer_id = $1 AND status IN ('processing', 'authorized'))
                  + (SELECT count(*) FROM addresses WHERE customer_id = $1)
                  + (SELECT count(*) FROM customers WHERE id = $1 AND deleted_at IS NULL)",
        )
        .bind(uuid(&customer)?)
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!(remains, 0);
        let kinds = merchant.books.events(&customer).await?;
        assert_eq!(kinds.last().map(|(kind, _)| kind.as_str()), Some("customer.deleted"));
    }
    Ok(())
}
