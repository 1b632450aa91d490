//! Customers, their saved cards, and card tokens.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::caller::Caller;
use crate::{
    Client,
    chaos::{journal::Entry, shop::ShopKind, test_cards},
};

/// A customer with a saved card.
#[derive(Clone, Debug)]
pub(super) struct Customer {
    pub(super) id: String,
    pub(super) card: String,
    pub(super) behavior: CardBehavior,
}

/// The behavior of a card, at any provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardBehavior {
    Approves,
    Partial,
    Soft,
    Hard,
    Challenged,
}

/// One customer per card behavior. Those that cannot be created are left out.
pub(super) async fn customers(caller: &mut Caller) -> Vec<Customer> {
    let mut customers = Vec::new();
    // In class C a lost response hides a partial approval, whose amount could be mistaken for another charge.
    let partial = matches!(caller.shop().kind, ShopKind::Mock('A' | 'B')).then_some(CardBehavior::Partial);
    for behavior in [CardBehavior::Approves, CardBehavior::Soft, CardBehavior::Hard].into_iter().chain(partial) {
        if let Some(customer) = customer(caller, behavior).await {
            customers.push(customer);
        }
    }
    customers
}

/// A new customer with a saved card.
pub(super) async fn customer(caller: &mut Caller, behavior: CardBehavior) -> Option<Customer> {
    let email = format!("ada-{}@example.com", Uuid::from_u128(u128::from(caller.random.below(u64::MAX))).simple());
    let id = caller.create("/v1/customers", json!({"email": email})).await?;
    for _ in 0..4 {
        let token = token(caller, behavior).await?;
        let body = json!({"customerId": id, "paymentToken": token});
        let response = caller.post("/v1/payment_methods", body).await;
        if let Some(card) = response
            .and_then(|response| (response.status == 201).then(|| response.body["id"].as_str().map(str::to_owned))?)
        {
            return Some(Customer { id, card, behavior });
        }
        // The card may have been saved although the response was lost.
        let list = caller.get(&format!("/v1/payment_methods?customerId={id}")).await?;
        if let Some(card) = list["data"][0]["id"].as_str() {
            return Some(Customer { card: card.to_owned(), id, behavior });
        }
    }
    None
}

/// Whether the next card is entered in the gateway's field. A moved shop gets cards of both kinds, of which the
/// provider rejects those that do not fit.
fn uses_gateway_field(caller: &mut Caller) -> bool {
    match caller.shop().kind {
        ShopKind::Gateway | ShopKind::Fee => true,
        ShopKind::Moved => caller.random.percent(60),
        ShopKind::Mock(_) | ShopKind::Clock(_) | ShopKind::Stripe => false,
    }
}

/// A payment token for a card.
pub(super) async fn token(caller: &mut Caller, behavior: CardBehavior) -> Option<String> {
    if uses_gateway_field(caller) {
        return field_token(caller, behavior).await;
    }
    Some(test_token(caller.shop().kind, behavior).to_owned())
}

/// The test token of a card at the mock or at Stripe.
fn test_token(kind: ShopKind, behavior: CardBehavior) -> &'static str {
    match (kind, behavior) {
        (ShopKind::Stripe, CardBehavior::Approves | CardBehavior::Partial) => "pm_card_visa",
        // It can be saved.
        (ShopKind::Stripe, CardBehavior::Soft) => "pm_card_chargeCustomerFail",
        (ShopKind::Stripe, CardBehavior::Hard) => "pm_card_chargeDeclinedLostCard",
        (ShopKind::Stripe, CardBehavior::Challenged) => "pm_card_authenticationRequired",
        (_, CardBehavior::Approves) => "tok_ok",
        (_, CardBehavior::Partial) => "tok_partial",
        (_, CardBehavior::Soft) => "tok_insufficient",
        (_, CardBehavior::Hard) => "tok_lost",
        (_, CardBehavior::Challenged) => "tok_authentication",
    }
}

/// A single-use token for a card that approves, as a merchant's page gets it.
pub(super) async fn single_use_token(caller: &mut Caller) -> Option<String> {
    if uses_gateway_field(caller) {
        return field_token(caller, CardBehavior::Approves).await;
    }
    let session = caller.post_from_page("/v1/checkout_sessions", json!({})).await?;
    let upstream = test_token(caller.shop().kind, CardBehavior::Approves);
    let exchange = json!({"sessionId": session["sessionId"], "upstreamToken": upstream});
    let response = caller.post_from_page("/v1/tokens", exchange).await?;
    response["paymentToken"].as_str().map(str::to_owned)
}

/// The token of a card entered in the gateway's card field.
async fn field_token(caller: &mut Caller, behavior: CardBehavior) -> Option<String> {
    let number = match behavior {
        CardBehavior::Approves | CardBehavior::Partial => test_cards::APPROVES,
        CardBehavior::Soft => test_cards::INSUFFICIENT,
        CardBehavior::Hard => test_cards::LOST,
        CardBehavior::Challenged => test_cards::CHALLENGED,
    };
    let app_key = caller.shop().app_key()?;
    let form = format!(
        "app_key={app_key}&creditcard_number={number}&cvv={}&expire_month=12&expire_year=2034&name=Ada+Lovelace&\
         zip_code=10001&country_code=US",
        test_cards::CVV
    );
    for _ in 0..8 {
        let gateway = caller.gateway();
        let client = Client::new(&gateway).and_then(|c| c.header("content-type", "application/x-www-form-urlencoded"));
        let (client, sent) = (client.ok()?, caller.load.clock.now());
        let request = client.send(Method::POST, "/services/field_token", Some(form.clone().into_bytes()));
        let response = tokio::time::timeout(std::time::Duration::from_secs(5), request).await.ok().and_then(Result::ok);
        let text = response.as_ref().map(|response| String::from_utf8_lossy(&response.bytes).into_owned());
        // Without the request body, which contains a card number.
        caller.load.journal.add(Entry {
            sent,
            ended: caller.load.clock.now(),
            shop: caller.shop,
            request: "POST /services/field_token".to_owned(),
            status: response.as_ref().map(|response| response.status),
            response: text.unwrap_or_default(),
            ..Entry::default()
        });
        if let Some(response) = response
            && let Value::String(token) = &response.body["response"]["card_token"]
        {
            return Some(token.clone());
        }
        caller.pause(300, 900).await;
    }
    None
}
