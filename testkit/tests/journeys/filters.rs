//! Filters of lists, and lists as CSV.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::support::{Merchant, accepted, created, eventually, id, ids, invalid, list_all, merchant, ok, payment};

/// Asserts that a filter returns what it would if it were applied to all objects, in pages of every size.
async fn assert_filter(merchant: &Merchant, list: &str, query: &str, matches: impl Fn(&Value) -> bool) -> Result<()> {
    let all = ok(&merchant.api.get(&format!("/v1/{list}?limit=100")).await?).clone();
    let expected = all["data"].as_array().context("rows")?.iter().filter(|row| matches(row));
    let expected: Vec<_> = expected.map(|row| row["id"].as_str().unwrap_or_default().to_owned()).collect();
    for limit in [1, 2, 100] {
        let found = list_all(&merchant.api, &format!("/v1/{list}?{query}&"), limit).await?;
        assert_eq!(found, expected, "/v1/{list}?{query} in pages of {limit}");
    }
    Ok(())
}

async fn assert_finds(merchant: &Merchant, list: &str, query: &str, field: &str, value: &Value) -> Result<()> {
    assert_filter(merchant, list, query, |row| row[field] == *value).await?;
    let found = ids(&merchant.api.get(&format!("/v1/{list}?{query}")).await?);
    assert!(!found.is_empty(), "/v1/{list}?{query}");
    Ok(())
}

#[tokio::test]
async fn payments_are_filtered_by_every_field_and_combination() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let by_card = json!({"amount": 700, "currency": "EUR", "paymentMethodId": card});
    for body in [payment(100, "tok_ok"), payment(200, "tok_insufficient"), by_card.clone(), by_card] {
        created(&merchant.api.post("/v1/payments", body).await?);
    }
    merchant.hold(300).await?;
    let voided = merchant.hold(400).await?;
    ok(&merchant.void(&voided).await?);
    let link = json!({"amount": 900, "currency": "USD"});
    created(&merchant.api.post("/v1/payment_links", link).await?);

    let of_customer = format!("customerId={customer}");
    assert_finds(&merchant, "payments", &of_customer, "customerId", &json!(customer)).await?;
    for status in ["declined", "authorized", "cancelled"] {
        assert_finds(&merchant, "payments", &format!("status={status}"), "status", &json!(status)).await?;
    }
    let either = |row: &Value| row["status"] == "declined" || row["status"] == "cancelled";
    assert_filter(&merchant, "payments", "status=declined&status=cancelled&status=declined", either).await?;
    assert_finds(&merchant, "payments", "currency=eur", "currency", &json!("EUR")).await?;
    assert_filter(&merchant, "payments", "last4=4242", |row| row["card"]["last4"] == "4242").await?;
    let amounts = |row: &Value| (200..=400).contains(&row["amount"].as_i64().unwrap_or_default());
    assert_filter(&merchant, "payments", "amountFrom=200&amountTo=400", amounts).await?;
    let all =
        format!("{of_customer}&currency=EUR&amountFrom=700&amountTo=700&last4=4242&createdFrom=2020-01-01T00:00:00Z");
    assert_finds(&merchant, "payments", &all, "customerId", &json!(customer)).await?;

    let time = |row: &Value| row["createdAt"].as_str().unwrap_or_default().to_owned();
    let third = time(&merchant.api.get("/v1/payments?limit=3").await?.body["data"][2]);
    assert_filter(&merchant, "payments", &format!("createdFrom={third}"), |row| time(row) >= third).await?;
    assert_filter(&merchant, "payments", &format!("createdTo={third}"), |row| time(row) < third).await?;

    for nothing in ["invoiceId=inv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "subscriptionId=sub_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        assert!(ids(&merchant.api.get(&format!("/v1/payments?{nothing}")).await?).is_empty(), "{nothing}");
    }
    let foreign = crate::support::merchant().await?.customer().await?;
    assert!(ids(&merchant.api.get(&format!("/v1/payments?customerId={foreign}")).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn invalid_filters_are_named() -> Result<()> {
    let merchant = merchant().await?;
    for (list, query, param) in [
        ("payments", "status=", "status"),
        ("payments", "status=paid", "status"),
        ("payments", "status=settled&status=paid", "status"),
        ("payments", "customerId=", "customerId"),
        ("payments", "customerId=nonsense", "customerId"),
        ("payments", "customerId=pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", "customerId"),
        ("payments", "currency=", "currency"),
        ("payments", "currency=EUR&currency=USD", "currency"),
        ("payments", "last4=424", "last4"),
        ("payments", "amountFrom=-1", "amountFrom"),
        ("payments", "amountFrom=8&amountTo=7", "amountFrom"),
        ("payments", "createdFrom=yesterday", "createdFrom"),
        ("payments", "createdTo=2026-01-01T00:00:00Z&createdFrom=2026-01-01T00:00:01Z", "createdFrom"),
        ("payments", "planId=plan_01ARZ3NDEKTSV4RRFFQ69G5FAV", "planId"),
        ("invoices", "status=settled", "status"),
        ("invoices", "dueTo=2026-01-01", "dueTo"),
        ("invoices", "dueTo=2026-01-01T00:00:00Z&dueFrom=2026-01-01T00:00:01Z", "dueFrom"),
        ("subscriptions", "planId=x", "planId"),
        ("recurring_invoices", "status=", "status"),
        ("payment_links", "status=late", "status"),
        ("invoices", "number=2", "number"),
        ("invoices", "number=INV-2", "number"),
        ("customers", "name=", "name"),
        ("customers", "email=", "email"),
        ("customers", "externalId=", "externalId"),
        ("refunds", "paymentId=x", "paymentId"),
    ] {
        invalid(&merchant.api.get(&format!("/v1/{list}?{query}")).await?, param);
    }
    Ok(())
}

#[tokio::test]
async fn a_cursor_that_has_left_the_filter_goes_on_from_its_place() -> Result<()> {
    let merchant = merchant().await?;
    let mut held = Vec::new();
    for amount in 1..=3 {
        held.insert(0, merchant.hold(amount).await?);
    }
    let first = ids(&merchant.api.get("/v1/payments?status=authorized&limit=1").await?);
    assert_eq!(first, held[..1]);
    ok(&merchant.void(&held[0]).await?);
    let next = format!("/v1/payments?status=authorized&startingAfter={}", held[0]);
    assert_eq!(ids(&merchant.api.get(&next).await?), held[1..]);
    Ok(())
}

#[tokio::test]
async fn other_lists_are_filtered_by_their_fields() -> Result<()> {
    let merchant = merchant().await?;
    let (ada, bob) = (
        json!({"email": "Ada@Example.com", "name": "Ada Lovelace", "externalId": "u-1"}),
        json!({"email": "bob@example.com"}),
    );
    let customer = id(created(&merchant.api.post("/v1/customers", ada).await?))?;
    let other = id(created(&merchant.api.post("/v1/customers", bob).await?))?;
    assert_finds(&merchant, "customers", "email=ADA@example.COM", "id", &json!(customer)).await?;
    assert_finds(&merchant, "customers", "externalId=u-1&email=ada@example.com", "id", &json!(customer)).await?;
    let body = json!({"customerId": customer, "currency": "USD", "amount": 500});
    created(&merchant.api.post("/v1/invoices", body.clone()).await?);
    created(&merchant.api.post("/v1/invoices", body).await?);
    assert_finds(&merchant, "invoices", "number=inv-000002", "number", &json!("INV-000002")).await?;
    assert!(ids(&merchant.api.get("/v1/invoices?number=INV-000003").await?).is_empty());
    for name in
        ["ada", "LOVE", "lovelace%20ada", "Ada%20Lovelace&externalId=u-1", "ada&email=ADA@example.com", "%27ada%3A*"]
    {
        assert_finds(&merchant, "customers", &format!("name={name}"), "id", &json!(customer)).await?;
    }
    for name in
        ["da", "ada%20bob", "%27", "ada%20%26%20bob", "ada&externalId=u-2", "ada&createdTo=2020-01-01T00:00:00Z"]
    {
        assert!(ids(&merchant.api.get(&format!("/v1/customers?name={name}")).await?).is_empty(), "{name}");
    }
    let foreign = crate::support::merchant().await?;
    assert!(ids(&foreign.api.get("/v1/customers?name=ada").await?).is_empty());

    created(&merchant.save_card(&customer, "tok_ok").await?);
    let plan = json!({"name": "Pro", "amount": 4900, "currency": "USD", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let subscription = json!({"customerId": customer, "planId": plan, "startAt": "2090-01-01"});
    created(&merchant.api.post("/v1/subscriptions", subscription.clone()).await?);
    let cancelled = id(created(&merchant.api.post("/v1/subscriptions", subscription).await?))?;
    ok(&merchant.api.post(&format!("/v1/subscriptions/{cancelled}/cancel"), json!({})).await?);
    assert_finds(&merchant, "subscriptions", "status=cancelled", "id", &json!(cancelled)).await?;
    let mine = format!("status=scheduled&customerId={customer}&planId={plan}");
    assert_finds(&merchant, "subscriptions", &mine, "status", &json!("scheduled")).await?;

    let invoice = json!({"customerId": other, "currency": "USD", "amount": 100});
    let voided = id(created(&merchant.api.post("/v1/invoices", invoice.clone()).await?))?;
    created(&merchant.api.post("/v1/invoices", invoice).await?);
    ok(&merchant.api.post(&format!("/v1/invoices/{voided}/void"), json!({})).await?);
    assert_finds(&merchant, "invoices", "status=voided", "id", &json!(voided)).await?;
    assert_finds(&merchant, "invoices", &format!("customerId={other}"), "customerId", &json!(other)).await?;

    let link = json!({"amount": 100, "currency": "USD"});
    created(&merchant.api.post("/v1/payment_links", link.clone()).await?);
    let link = id(created(&merchant.api.post("/v1/payment_links", link).await?))?;
    ok(&merchant.api.post(&format!("/v1/payment_links/{link}/cancel"), json!({})).await?);
    assert_finds(&merchant, "payment_links", "status=cancelled", "id", &json!(link)).await?;
    assert_finds(&merchant, "payment_links", "status=open&status=paid", "status", &json!("open")).await
}

#[tokio::test]
async fn invoices_are_filtered_by_their_due_dates() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let (first, second) = ("2020-01-01T00:00:00.000Z", "2020-01-02T00:00:00.000Z");
    let mut made = Vec::new();
    for due in [first, second, second, "2090-01-01T00:00:00.000Z"] {
        let body = json!({"customerId": customer, "currency": "USD", "amount": 100, "dueAt": due});
        made.push(id(created(&merchant.api.post("/v1/invoices", body).await?))?);
    }
    ok(&merchant.api.post(&format!("/v1/invoices/{}/void", made[1]), json!({})).await?);
    let due = |row: &Value| row["dueAt"].as_str().unwrap_or_default().to_owned();
    assert_filter(&merchant, "invoices", &format!("dueFrom={second}"), |row| due(row).as_str() >= second).await?;
    assert_filter(&merchant, "invoices", &format!("dueTo={second}"), |row| due(row).as_str() < second).await?;
    let only_second = format!("dueFrom={second}&dueTo=2020-01-02T00:00:00.001Z&customerId={customer}");
    assert_finds(&merchant, "invoices", &only_second, "dueAt", &json!(second)).await?;
    let overdue = "status=open&status=scheduled&dueTo=2020-01-03T00:00:00Z";
    assert_filter(&merchant, "invoices", overdue, |row| row["id"] == *made[0] || row["id"] == *made[2]).await?;
    let csv = merchant.api.header("accept", "text/csv")?.get(&format!("/v1/invoices?{overdue}")).await?;
    assert_eq!(String::from_utf8(csv.bytes)?.lines().count(), 1 + 2);
    Ok(())
}

async fn wait_for_refund(merchant: &Merchant, refund: &str) -> Result<()> {
    eventually("a refund", async || {
        let found = merchant.api.get(&format!("/v1/refunds/{refund}")).await?;
        Ok((found.body["status"] == "succeeded").then_some(()))
    })
    .await
}

#[tokio::test]
async fn refunds_are_objects_of_their_own() -> Result<()> {
    let merchant = merchant().await?;
    let payment = merchant.charge(500).await?;
    let mut made = Vec::new();
    for (amount, own) in [(100, "r-1"), (200, "r-2")] {
        let body = json!({"amount": amount, "externalId": own});
        made.push(id(accepted(&merchant.api.post(&format!("/v1/payments/{payment}/refund"), body).await?))?);
        wait_for_refund(&merchant, &made[made.len() - 1]).await?;
    }
    let other = merchant.charge(300).await?;
    let whole = id(accepted(&merchant.refund(&other, None).await?))?;
    wait_for_refund(&merchant, &whole).await?;

    let refund = ok(&merchant.api.get(&format!("/v1/refunds/{}", made[0])).await?).clone();
    assert_eq!(refund, merchant.payment(&payment).await?["refunds"][0], "{refund}");
    assert_finds(&merchant, "refunds", &format!("paymentId={payment}"), "paymentId", &json!(payment)).await?;
    assert_finds(&merchant, "refunds", "externalId=r-2&status=succeeded", "externalId", &json!("r-2")).await?;
    crate::support::not_found(&merchant.api.get("/v1/refunds/ref_01ARZ3NDEKTSV4RRFFQ69G5FAV").await?);
    let foreign = crate::support::merchant().await?;
    crate::support::not_found(&foreign.api.get(&format!("/v1/refunds/{}", made[0])).await?);
    Ok(())
}

#[tokio::test]
async fn a_list_as_csv_has_all_rows_and_the_fields_of_the_json() -> Result<()> {
    let merchant = merchant().await?;
    let customer = json!({"email": "a@example.com", "name": "=HYPERLINK(\"x\"), \"Ada\"", "phone": "+1 555"});
    let customer = id(created(&merchant.api.post("/v1/customers", customer).await?))?;
    let csv = merchant.api.header("accept", "text/csv")?;
    let response = csv.get("/v1/customers").await?;
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, Some("text/csv; charset=utf-8; header=present"))
    );
    let text = String::from_utf8(response.bytes)?;
    let (header, row) = text.split_once("\r\n").context("a header")?;
    assert!(header.starts_with("id,object,livemode,createdAt,"), "{header}");
    assert!(row.starts_with(&format!("{customer},customer,false,")) && row.ends_with("\r\n"), "{row}");
    assert!(row.contains("\"'=HYPERLINK(\"\"x\"\"), \"\"Ada\"\"\"") && row.contains(",'+1 555,"), "{row}");

    // More rows than are read at once.
    let insert = "INSERT INTO customers (id, account_id, email, name, created_at)
                  SELECT new_ulid(now()), $1, n || '@example.com', 'Ada', now() FROM generate_series(1, 1200) n";
    sqlx::query(insert).bind(crate::support::uuid(&merchant.account.id)?).execute(&merchant.books.db).await?;
    let text = String::from_utf8(csv.get("/v1/customers").await?.bytes)?;
    let rows: std::collections::BTreeSet<_> = text.lines().collect();
    assert_eq!((text.lines().count(), rows.len()), (1202, 1202), "each row once, after the header");
    let text = String::from_utf8(csv.get("/v1/customers?email=a@example.com").await?.bytes)?;
    assert_eq!(text.lines().count(), 2);

    created(&merchant.pay(100).await?);
    let text = String::from_utf8(csv.get("/v1/payments?status=settled&status=pending_settlement").await?.bytes)?;
    assert!(text.lines().next().is_some_and(|header| header.contains(",card.brand,card.last4,")), "{text}");
    assert!(text.contains(",4242,") && text.lines().count() == 2, "{text}");
    for query in ["limit=1", "startingAfter=pay_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        invalid(&csv.get(&format!("/v1/payments?{query}")).await?, query.split('=').next().unwrap_or_default());
    }
    invalid(&csv.get("/v1/payments?status=x").await?, "status");
    crate::support::not_found(&csv.get("/v1/addresses?customerId=cus_01ARZ3NDEKTSV4RRFFQ69G5FAV").await?);
    Ok(())
}
