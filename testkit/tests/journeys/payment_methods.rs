//! Saved cards: each with a customer, one of them the default, and each as good or bad as the token it came from.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;

use crate::support::{Merchant, created, id, ids, invalid, merchant, not_found, ok, said_of, together, without};

const CARDS: &str = "/v1/payment_methods";

async fn card(merchant: &Merchant, customer: &str) -> Result<String> {
    id(created(&merchant.save_card(customer, "tok_ok").await?))
}

/// A customer's cards, read one by one.
async fn one_by_one(merchant: &Merchant, customer: &str) -> Result<Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().map(|id| format!("&startingAfter={id}")).unwrap_or_default();
        let page = merchant.api.get(&format!("{CARDS}?customerId={customer}&limit=1{after}")).await?;
        seen.extend(ids(&page));
        if page.body["hasMore"] == false {
            return Ok(seen);
        }
    }
}

#[tokio::test]
async fn the_first_card_is_the_default_and_comes_first() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    assert!(ids(&merchant.api.get(&format!("{CARDS}?customerId={customer}")).await?).is_empty());
    let answer = merchant.save_card(&customer, "tok_ok").await?;
    let first = created(&answer);
    assert!(id(first)?.starts_with("pm_"));
    let shown = json!({
        "object": "payment_method", "livemode": false, "customerId": customer, "type": "card", "status": "active",
        "brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034, "isDefault": true,
    });
    assert_eq!(without(without(first.clone(), "id"), "createdAt"), shown);

    let mut cards = vec![id(first)?];
    for _ in 0..3 {
        let next = merchant.save_card(&customer, "tok_ok").await?;
        assert_eq!(created(&next)["isDefault"], false);
        cards.push(id(&next.body)?);
    }
    // The default first, then the newest: whichever it is, and whatever the page.
    for default in [0, 2, 3, 1] {
        let made = merchant.api.send(Method::POST, &format!("{CARDS}/{}/default", cards[default]), None).await?;
        assert_eq!(ok(&made)["isDefault"], true);
        let mut order = cards.clone();
        let first = order.remove(default);
        order.push(first);
        order.reverse();
        let page = merchant.api.get(&format!("{CARDS}?customerId={customer}")).await?;
        assert_eq!(ids(&page), order);
        let defaults = page.body["data"].as_array().into_iter().flatten().filter(|card| card["isDefault"] == true);
        assert_eq!(defaults.count(), 1);
        assert_eq!(one_by_one(&merchant, &customer).await?, order, "paging keeps the order");
    }
    Ok(())
}

#[tokio::test]
async fn a_list_is_of_one_customer() -> Result<()> {
    let merchant = merchant().await?;
    let stranger = crate::support::merchant().await?;
    let (one, other) = (merchant.customer().await?, merchant.customer().await?);
    let (mine, theirs) = (card(&merchant, &one).await?, card(&merchant, &other).await?);
    invalid(&merchant.api.get(CARDS).await?, "customerId");
    not_found(&merchant.api.get(&format!("{CARDS}?customerId=cus_01ARZ3NDEKTSV4RRFFQ69G5FAV")).await?);
    not_found(&merchant.api.get(&format!("{CARDS}?customerId=nonsense")).await?);
    not_found(&stranger.api.get(&format!("{CARDS}?customerId={one}")).await?);
    assert_eq!(ids(&merchant.api.get(&format!("{CARDS}?customerId={one}")).await?), [mine]);
    for limit in ["0", "101", "abc"] {
        invalid(&merchant.api.get(&format!("{CARDS}?customerId={one}&limit={limit}")).await?, "limit");
    }
    for cursor in [theirs.as_str(), "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        let path = format!("{CARDS}?customerId={one}&startingAfter={cursor}");
        invalid(&merchant.api.get(&path).await?, "startingAfter");
    }
    Ok(())
}

#[tokio::test]
async fn a_card_needs_a_customer_and_a_token() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    invalid(&merchant.api.post(CARDS, json!({"paymentToken": "tok_ok"})).await?, "customerId");
    invalid(&merchant.api.post(CARDS, json!({"customerId": customer})).await?, "paymentToken");
    invalid(&merchant.api.post(CARDS, json!({"customerId": 1, "paymentToken": "tok_ok"})).await?, "customerId");
    for token in ["mtok_unknown", "tok_unknown", ""] {
        invalid(&merchant.save_card(&customer, token).await?, "paymentToken");
    }
    for unknown in ["cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        not_found(&merchant.save_card(unknown, "tok_ok").await?);
        // The customer is looked for before the token is.
        not_found(&merchant.save_card(unknown, "mtok_unknown").await?);
    }
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

#[tokio::test]
async fn another_accounts_card_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let card = card(&merchant, &customer).await?;
    not_found(&stranger.save_card(&customer, "tok_ok").await?);
    let default = |id: &str| format!("{CARDS}/{id}/default");
    let foreign = stranger.api.send(Method::POST, &default(&card), None).await?;
    not_found(&foreign);
    let unknown = stranger.api.send(Method::POST, &default("pm_01ARZ3NDEKTSV4RRFFQ69G5FAV"), None).await?;
    assert_eq!(said_of(&foreign, &card), said_of(&unknown, "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    let body = json!({"amount": 100, "currency": "USD", "paymentMethodId": card});
    not_found(&stranger.api.post("/v1/payments", body).await?);
    assert_eq!(stranger.books.operations().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_saved_card_keeps_the_nature_of_its_token() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for (token, last4, status) in [
        ("tok_ok", "4242", "pending_settlement"),
        ("tok_partial", "0010", "partially_authorized"),
        ("tok_insufficient", "9995", "declined"),
    ] {
        let saved = merchant.save_card(&customer, token).await?;
        assert_eq!(created(&saved)["last4"], last4);
        for _ in 0..2 {
            let body = json!({"amount": 900, "currency": "USD", "paymentMethodId": id(&saved.body)?});
            let paid = merchant.api.post("/v1/payments", body).await?;
            assert_eq!(created(&paid)["status"], status, "{token}");
            assert_eq!(paid.body["card"]["last4"], last4);
        }
    }
    Ok(())
}

#[tokio::test]
async fn of_many_first_cards_one_is_the_default() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let answers = together(12, async |_| merchant.save_card(&customer, "tok_ok").await).await?;
    answers.iter().for_each(|answer| assert_eq!(created(answer)["status"], "active"));
    let page = merchant.api.get(&format!("{CARDS}?customerId={customer}&limit=100")).await?;
    assert_eq!(ids(&page).len(), 12);
    let flags: Vec<_> =
        page.body["data"].as_array().into_iter().flatten().map(|card| card["isDefault"] == true).collect();
    assert!(flags[0] && !flags[1..].contains(&true), "one default, and it comes first");
    assert_eq!(one_by_one(&merchant, &customer).await?, ids(&page));
    Ok(())
}
