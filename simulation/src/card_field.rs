//! The card fields of the gateway and of Stripe, as cardholders use them: each exchanges a card for a token that can be
//! spent once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Client;
use serde_json::Value;
use testkit::stripe::CardBehavior;
use tokio::sync::OnceCell;

use crate::history::{Content, Provider, Request, TimedRequest};
use crate::shop::Shop;
use crate::system::GATEWAY_PAGES;

/// The card that stands for each token of a history.
const CARDS: [(&str, &str); 10] = [
    ("tok_ok", "4242424242424242"),
    // The gateway and Stripe approve only in full.
    ("tok_partial", "5555555555554444"),
    ("tok_declined", "4000000000000002"),
    ("tok_insufficient", "4000000000009995"),
    // A card of a brand that the account does not accept.
    ("tok_refused", "378282246310005"),
    // Submitted without a postal code.
    (INCOMPLETE, "4242424242424242"),
    // The gateway reports no disputes.
    ("tok_disputed", "4242424242424242"),
    ("tok_disputed_won", "4242424242424242"),
    (DISPUTED_TWICE, "4242424242424242"),
    (CHALLENGED, "4000002500003155"),
];

const INCOMPLETE: &str = "tok_incomplete";

/// A card whose issuer decides disputes twice: they are lost, and won later. The mock has no such card.
pub const DISPUTED_TWICE: &str = "tok_disputed_twice";

/// A card whose issuer requires a challenge of the cardholder. The mock has no such card.
pub const CHALLENGED: &str = "tok_challenged";

/// Fetches the tokens of the account's provider. A request that is repeated, by its key or because a form is submitted
/// twice, has the same token, although the account may have moved to another provider since.
#[derive(Clone)]
pub struct CardField {
    shop: Shop,
    tokens: Arc<Mutex<BTreeMap<String, Token>>>,
}

/// A token, once it has been requested; `None` if there was no response.
type Token = Arc<OnceCell<Option<String>>>;

impl CardField {
    /// The field of this account.
    pub fn new(shop: Shop) -> Self {
        Self { shop, tokens: Arc::default() }
    }

    /// What is sent for a request of the history; `None` if the field returns no token.
    pub async fn fill(&self, client: &Client, timed: &TimedRequest, request: &Request) -> Option<Content> {
        let mut content = request.content.clone();
        let name = match &content {
            Content::None | Content::Delete => None,
            Content::Json(body) => body["paymentToken"].as_str(),
            Content::Form(form) => form.strip_prefix("token=").and_then(|rest| rest.split('&').next()),
        };
        let Some((name, number)) = CARDS.iter().find(|(card, _)| Some(*card) == name) else { return Some(content) };
        let same = timed.request.key.clone().unwrap_or_else(|| format!("{} {}", timed.at, request.path));
        let token = {
            let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(tokens.entry(format!("{same} {name}")).or_default())
        };
        // A card for renewals is refused when it is saved, or only when it is charged.
        let is_for_renewals = matches!(&content, Content::Form(form) if form.contains("renewals="));
        let saves = request.path == "/v1/payment_methods" || (is_for_renewals && *name == "tok_insufficient");
        let fetched = token.get_or_init(async || match self.shop.provider() {
            Provider::Mock => Some(at_mock(name).to_owned()),
            Provider::CardGateway => fetch(client, self.shop.app_key.as_deref()?, number, *name != INCOMPLETE).await,
            Provider::Stripe => {
                let (stripe, keys) = self.shop.stripe.as_ref()?;
                let card = stripe.token(keys, behavior(name, saves)?);
                if *name == CHALLENGED || name.starts_with("tok_disputed") {
                    self.shop.will_act(&card, name);
                }
                Some(card)
            }
        });
        let token = fetched.await.clone()?;
        match &mut content {
            Content::None | Content::Delete => {}
            Content::Json(body) => body["paymentToken"] = token.into(),
            Content::Form(form) => *form = form.replacen(*name, &token, 1),
        }
        Some(content)
    }
}

/// The mock's token for one of the history.
fn at_mock(name: &str) -> &str {
    match name {
        DISPUTED_TWICE => "tok_disputed",
        CHALLENGED => "tok_ok",
        _ => name,
    }
}

/// What a card does at Stripe; `None` if its field does not take it. One that is declined can still be saved.
fn behavior(card: &str, saves: bool) -> Option<CardBehavior> {
    let code = match card {
        "tok_declined" => "generic_decline",
        "tok_insufficient" => "insufficient_funds",
        "tok_refused" => "card_not_supported",
        INCOMPLETE => return None,
        CHALLENGED => return Some(CardBehavior::Challenge),
        _ => return Some(CardBehavior::Approve),
    };
    Some(if saves { CardBehavior::DeclineCharges(code) } else { CardBehavior::Decline(code) })
}

async fn fetch(client: &Client, app_key: &str, number: &str, is_complete: bool) -> Option<String> {
    let zip_code = if is_complete { "10001" } else { "" };
    let form = format!(
        "app_key={app_key}&creditcard_number={number}&expire_month=12&expire_year=2030&cvv=123&name=Ada+Lovelace\
         &zip_code={zip_code}&country_code=US"
    );
    let url = format!("http://{}/services/field_token", SocketAddr::from(GATEWAY_PAGES));
    let request = client.post(url).header("content-type", "application/x-www-form-urlencoded").body(form);
    let response: Value = serde_json::from_str(&request.send().await.ok()?.text().await.ok()?).ok()?;
    Some(response["response"]["card_token"].as_str()?.to_owned())
}
