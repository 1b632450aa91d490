//! Customers, their saved cards, and tokens of cards.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::{caller::Caller, check::canary, journal::Entry, world::Line};
use crate::Client;

/// A customer with a saved card.
#[derive(Clone, Debug)]
pub(super) struct Customer {
    pub(super) id: String,
    pub(super) card: String,
    pub(super) nature: Nature,
}

/// How a card behaves, whoever the provider is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    Approves,
    Partial,
    Soft,
    Hard,
    Challenged,
}

/// A few customers: one whose card approves, and others whose cards do not. Whoever cannot be made is not there.
pub(super) async fn customers(caller: &mut Caller) -> Vec<Customer> {
    let mut made = Vec::new();
    // Whoever hears nothing of a part in class C cannot tell its half from another charge.
    let parts = matches!(caller.shop().line, Line::Mock('A' | 'B')).then_some(Nature::Partial);
    for nature in [Nature::Approves, Nature::Soft, Nature::Hard].into_iter().chain(parts) {
        if let Some(customer) = customer(caller, nature).await {
            made.push(customer);
        }
    }
    made
}

/// A new customer with this card.
pub(super) async fn customer(caller: &mut Caller, nature: Nature) -> Option<Customer> {
    let email = format!("ada-{}@example.com", Uuid::from_u128(u128::from(caller.random.below(u64::MAX))).simple());
    let id = caller.make("/v1/customers", json!({"email": email})).await?;
    for _ in 0..4 {
        let token = token(caller, nature).await?;
        let body = json!({"customerId": id, "paymentToken": token});
        let told = caller.post("/v1/payment_methods", body).await;
        if let Some(card) =
            told.and_then(|told| (told.status == 201).then(|| told.body["id"].as_str().map(str::to_owned))?)
        {
            return Some(Customer { id, card, nature });
        }
        // It may have been saved all the same.
        let list = caller.get(&format!("/v1/payment_methods?customerId={id}")).await?;
        if let Some(card) = list["data"][0]["id"].as_str() {
            return Some(Customer { card: card.to_owned(), id, nature });
        }
    }
    None
}

/// Whether the next card comes from the gateway's field. Who moves now and then has cards of both kinds, and is refused those
/// that do not fit.
fn is_of_the_gateway(caller: &mut Caller) -> bool {
    match caller.shop().line {
        Line::Gateway | Line::Fee => true,
        Line::Moved => caller.random.percent(60),
        Line::Mock(_) | Line::Clock(_) => false,
    }
}

/// What stands for a card in a request.
pub(super) async fn token(caller: &mut Caller, nature: Nature) -> Option<String> {
    if is_of_the_gateway(caller) {
        return field_token(caller, nature).await;
    }
    let token = match nature {
        Nature::Approves => "tok_ok",
        Nature::Partial => "tok_partial",
        Nature::Soft => "tok_insufficient",
        Nature::Hard => "tok_lost",
        Nature::Challenged => "tok_authentication",
    };
    Some(token.to_owned())
}

/// A token of a card that approves, and that is good once: what a page of the merchant gets for what the card field gave it.
pub(super) async fn once(caller: &mut Caller) -> Option<String> {
    if is_of_the_gateway(caller) {
        return field_token(caller, Nature::Approves).await;
    }
    let session = caller.browse("/v1/checkout_sessions", json!({})).await?;
    let told =
        caller.browse("/v1/tokens", json!({"sessionId": session["sessionId"], "upstreamToken": "tok_ok"})).await?;
    told["paymentToken"].as_str().map(str::to_owned)
}

/// What a capture field gets for a card at the gateway.
async fn field_token(caller: &mut Caller, nature: Nature) -> Option<String> {
    let number = match nature {
        Nature::Approves | Nature::Partial => canary::APPROVES,
        Nature::Soft => canary::INSUFFICIENT,
        Nature::Hard => canary::LOST,
        Nature::Challenged => canary::CHALLENGED,
    };
    let app_key = caller.shop().app_key()?;
    let form = format!(
        "app_key={app_key}&creditcard_number={number}&cvv={}&expire_month=12&expire_year=2034&name=Ada+Lovelace&\
         zip_code=10001&country_code=US",
        canary::CVV
    );
    for _ in 0..8 {
        let gateway = caller.gateway();
        let client = Client::new(&gateway).and_then(|c| c.header("content-type", "application/x-www-form-urlencoded"));
        let (client, sent) = (client.ok()?, caller.world.clock.now());
        let asking = client.send(Method::POST, "/services/field_token", Some(form.clone().into_bytes()));
        let answer = tokio::time::timeout(std::time::Duration::from_secs(5), asking).await.ok().and_then(Result::ok);
        let text = answer.as_ref().map(|answer| String::from_utf8_lossy(&answer.bytes).into_owned());
        // Without what was asked for, which is a card.
        caller.world.journal.add(Entry {
            sent,
            ended: caller.world.clock.now(),
            shop: caller.shop,
            request: "POST /services/field_token".to_owned(),
            status: answer.as_ref().map(|answer| answer.status),
            answer: text.unwrap_or_default(),
            ..Entry::default()
        });
        if let Some(answer) = answer
            && let Value::String(token) = &answer.body["response"]["card_token"]
        {
            return Some(token.clone());
        }
        caller.pause(300, 900).await;
    }
    None
}
