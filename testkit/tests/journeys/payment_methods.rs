//! Saved cards: each belongs to a customer, one is the default, and each behaves like the token it was saved from.

use anyhow::Result;
use reqwest::Method;
use serde_json::json;

use crate::support::{
    Merchant, concurrently, created, error_text, eventually, id, ids, invalid, merchant, not_found, ok, without,
};

const CARDS: &str = "/v1/payment_methods";

async fn card(merchant: &Merchant, customer: &str) -> Result<String> {
    id(created(&merchant.save_card(customer, "tok_ok").await?))
}

/// A customer's cards, read in pages of one.
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
async fn the_default_card_is_listed_first() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    assert!(ids(&merchant.api.get(&format!("{CARDS}?customerId={customer}")).await?).is_empty());
    let response = merchant.save_card(&customer, "tok_ok").await?;
    let first = created(&response);
    assert!(id(first)?.starts_with("pm_"));
    let expected = json!({
        "object": "payment_method", "livemode": false, "version": 3, "customerId": customer, "type": "card", "status": "active",
        "brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034, "isDefault": true,
    });
    assert_eq!(without(without(first.clone(), "id"), "createdAt"), expected);

    let mut cards = vec![id(first)?];
    for _ in 0..3 {
        let next = merchant.save_card(&customer, "tok_ok").await?;
        assert_eq!(created(&next)["isDefault"], false);
        cards.push(id(&next.body)?);
    }
    // The default comes first, then the newest, for any default and page size.
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
async fn a_listing_under_way_shows_every_card_once_while_the_default_changes() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let mut cards = Vec::new();
    for _ in 0..7 {
        cards.push(card(&merchant, &customer).await?);
    }
    let set_default = async |card: &str| -> Result<()> {
        ok(&merchant.api.send(Method::POST, &format!("{CARDS}/{card}/default"), None).await?);
        Ok(())
    };
    // From one card to another, to a card that was shown, and to and from the last one of a page.
    for (before, after) in [(0, 2), (2, 0), (3, 6), (6, 1), (1, 5), (5, 4), (4, 3)] {
        for limit in [1, 2, 3] {
            set_default(&cards[before]).await?;
            let mut expected: Vec<_> = cards.iter().rev().filter(|card| **card != cards[before]).cloned().collect();
            expected.insert(0, cards[before].clone());
            let mut seen = Vec::new();
            let mut path = format!("{CARDS}?customerId={customer}&limit={limit}");
            loop {
                let page = merchant.api.get(&path).await?;
                seen.extend(ids(&page));
                let Some(cursor) = page.body["nextCursor"].as_str() else { break };
                path = format!("{CARDS}?customerId={customer}&limit={limit}&startingAfter={cursor}");
                set_default(&cards[after]).await?;
            }
            assert_eq!(seen, expected, "{before} {after} {limit}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn lists_are_scoped_to_one_customer() -> Result<()> {
    let merchant = merchant().await?;
    let other_merchant = crate::support::merchant().await?;
    let (one, other) = (merchant.customer().await?, merchant.customer().await?);
    let (listed, foreign_card) = (card(&merchant, &one).await?, card(&merchant, &other).await?);
    invalid(&merchant.api.get(CARDS).await?, "customerId");
    not_found(&merchant.api.get(&format!("{CARDS}?customerId=cus_01ARZ3NDEKTSV4RRFFQ69G5FAV")).await?);
    not_found(&merchant.api.get(&format!("{CARDS}?customerId=nonsense")).await?);
    not_found(&other_merchant.api.get(&format!("{CARDS}?customerId={one}")).await?);
    assert_eq!(ids(&merchant.api.get(&format!("{CARDS}?customerId={one}")).await?), [listed]);
    for limit in ["0", "101", "abc", "%2B5", "-1", "5.0", "%205", ""] {
        invalid(&merchant.api.get(&format!("{CARDS}?customerId={one}&limit={limit}")).await?, "limit");
    }
    for cursor in [foreign_card.as_str(), "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        let path = format!("{CARDS}?customerId={one}&startingAfter={cursor}");
        invalid(&merchant.api.get(&path).await?, "startingAfter");
    }
    Ok(())
}

#[tokio::test]
async fn cards_need_a_customer_and_a_token() -> Result<()> {
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
        // The customer is checked before the token.
        not_found(&merchant.save_card(unknown, "mtok_unknown").await?);
    }
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

#[tokio::test]
async fn cards_of_other_accounts_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let card = card(&merchant, &customer).await?;
    not_found(&other_merchant.save_card(&customer, "tok_ok").await?);
    let default = |id: &str| format!("{CARDS}/{id}/default");
    let foreign = other_merchant.api.send(Method::POST, &default(&card), None).await?;
    not_found(&foreign);
    let unknown = other_merchant.api.send(Method::POST, &default("pm_01ARZ3NDEKTSV4RRFFQ69G5FAV"), None).await?;
    assert_eq!(error_text(&foreign, &card), error_text(&unknown, "pm_01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    let body = json!({"amount": 100, "currency": "USD", "paymentMethodId": card});
    not_found(&other_merchant.api.post("/v1/payments", body).await?);
    assert_eq!(other_merchant.books.operations().await?, 0);
    Ok(())
}

#[tokio::test]
async fn saved_cards_behave_like_their_token() -> Result<()> {
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
async fn concurrent_first_cards_get_one_default() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let responses = concurrently(12, async |_| merchant.save_card(&customer, "tok_ok").await).await?;
    responses.iter().for_each(|response| assert_eq!(created(response)["status"], "active"));
    let page = merchant.api.get(&format!("{CARDS}?customerId={customer}&limit=100")).await?;
    assert_eq!(ids(&page).len(), 12);
    let flags: Vec<_> =
        page.body["data"].as_array().into_iter().flatten().map(|card| card["isDefault"] == true).collect();
    assert!(flags[0] && !flags[1..].contains(&true), "one default, listed first");
    assert_eq!(one_by_one(&merchant, &customer).await?, ids(&page));
    Ok(())
}

#[tokio::test]
async fn a_detached_card_is_not_found_and_not_charged() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let (first, second) = (card(&merchant, &customer).await?, card(&merchant, &customer).await?);
    let path = format!("{CARDS}/{first}");
    assert_eq!(ok(&merchant.api.get(&path).await?)["isDefault"], true);
    let hold = json!({"amount": 500, "currency": "USD", "paymentMethodId": first, "capture": false});
    let held = id(created(&merchant.api.post("/v1/payments", hold.clone()).await?))?;
    let invoice = json!({"customerId": customer, "amount": 700, "currency": "USD"});
    let invoice = id(created(&merchant.api.post("/v1/invoices", invoice).await?))?;
    // Not due before the card is detached.
    let schedule = json!({"collectAt": "2090-01-01T00:00:00Z", "paymentMethodId": first});
    ok(&merchant.api.post(&format!("/v1/invoices/{invoice}/schedule"), schedule).await?);

    // One of several requests at once detaches it.
    let responses = concurrently(5, async |_| merchant.api.delete(&path).await).await?;
    let detached: Vec<_> = responses.iter().filter(|response| response.status == 200).collect();
    assert!(detached.len() == 1 && responses.iter().all(|response| [200, 404].contains(&response.status)));
    assert_eq!(detached[0].body, json!({"id": first, "object": "payment_method", "deleted": true}));
    not_found(&merchant.api.get(&path).await?);
    not_found(&merchant.api.post("/v1/payments", hold).await?);
    not_found(&merchant.api.send(Method::POST, &format!("{path}/default"), None).await?);
    assert_eq!(one_by_one(&merchant, &customer).await?, std::slice::from_ref(&second));
    assert_eq!(
        ok(&merchant.api.get(&format!("{CARDS}/{second}")).await?)["isDefault"],
        false,
        "the default passes to none"
    );
    ok(&merchant.capture(&held, None).await?);
    assert_eq!(merchant.refund(&held, None).await?.status, 202);

    let due =
        sqlx::query("UPDATE invoices SET next_attempt_at = now() WHERE account_id = $1 AND next_attempt_at > now()");
    assert_eq!(due.bind(merchant.books.account).execute(&merchant.books.db).await?.rows_affected(), 1);
    ok(&merchant.api.send(Method::POST, "/v1/invoices/scheduler/run", None).await?);
    // A scheduler may have claimed it at the same time.
    let attempt = eventually("the attempt", async || {
        let attempts = merchant.api.get(&format!("/v1/invoices/{invoice}/attempts")).await?;
        Ok(attempts.body["data"].get(0).cloned())
    });
    let attempt = attempt.await?;
    assert_eq!((&attempt["status"], &attempt["paymentId"]), (&"failed".into(), &json!(null)));
    let kinds: Vec<String> = merchant.books.events(&first).await?.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["payment_method.created", "payment_method.detached"]);
    not_found(&crate::support::merchant().await?.api.delete(&format!("{CARDS}/{second}")).await?);
    Ok(())
}
