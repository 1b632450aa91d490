//! Wallets. The sandbox's wallet is this gateway itself: it signs a token for a test card, and a wallet sale opens it. Amount,
//! currency and card are inside, encrypted and bound to the token's id, so none of them can be changed.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::crypto::{hex, random_hex, sha256};
use common::time::Timestamp;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::accounts::{self, Account, CURRENCIES, Vaulting};
use crate::amount::Amount;
use crate::app::App;
use crate::cards::source::{Funding, Source};
use crate::cards::{Expiry, Face, Holder, Number};
use crate::failure::{Code, Result};
use crate::http::{Form, Reply};
use crate::id::TransactionId;
use crate::transactions::enter::declined;

/// How long a token may be used.
const LIFETIME: Duration = Duration::from_secs(10 * 60);
const VERSION: &str = "EC_v1";
/// The card of the sandbox's wallet, where the page names no other.
const TEST_CARD: &str = "4111111111111111";
/// The cards that may be in the sandbox's wallet: nobody's.
const TEST_CARDS: [&str; 10] = [
    TEST_CARD,
    "4242424242424242",
    "5555555555554444",
    "378282246310005",
    "4000000000000002",
    "4000000000009995",
    "4000000000009987",
    "4000000000009979",
    "4000000000000069",
    "4000000000000127",
];

/// A wallet's signature token, by the contract's keys.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Token {
    identify_key: String,
    data: String,
    ephemeral_public_key: String,
    public_key_hash: String,
    transaction_id: String,
    signature: String,
    version: String,
    display_name: String,
    network: String,
    r#type: String,
}

/// What is inside `data`.
#[derive(Serialize, Deserialize)]
struct Inside {
    number: String,
    expiry: String,
    hundredths: i64,
    currency: String,
    signed_ms: i64,
}

/// An opened token.
#[derive(Debug)]
pub struct Opened {
    /// Its id, which is used up by a sale.
    pub id: Uuid,
    /// The card.
    pub funding: Funding,
    /// How much its owner has agreed to.
    pub amount: Amount,
    /// Of what.
    pub currency: String,
}

/// Signs a token for a test card, as the sandbox's wallet does when its owner agrees.
///
/// # Errors
/// 01 for an unknown `app_key`, 02 for a card that is no test card, 07, 08, 10.
pub async fn sign(app: &App, form: &Form) -> Result<Reply> {
    let account = accounts::by_app_key(&app.db, form.get("app_key")).await?;
    let number = form.get("creditcard_number").unwrap_or(TEST_CARD);
    let number = Number::parse(number).filter(|number| TEST_CARDS.contains(&number.expose()));
    let number = number.ok_or(Code::Card.refuse())?;
    let amount =
        form.get("amount").and_then(|text| text.parse::<Amount>().ok()).filter(|amount| *amount > Amount::ZERO);
    let amount = amount.ok_or(Code::Amount.refuse())?;
    let currency = form.get("currency").ok_or(Code::CurrencyMissing.refuse())?.to_ascii_uppercase();
    if !CURRENCIES.contains(&currency.as_str()) {
        return Err(Code::CurrencyNotAllowed.refuse());
    }
    let now = app.clock.now();
    let id = TransactionId::new(now).uuid();
    let inside = Inside {
        number: number.expose().to_owned(),
        expiry: "12/2034".to_owned(),
        hundredths: amount.get(),
        currency,
        signed_ms: now.as_millisecond(),
    };
    let inside = serde_json::to_string(&inside).expect("texts and numbers are JSON");
    let brand = number.brand().name();
    let mut token = Token {
        identify_key: account.app_key.clone(),
        data: BASE64_STANDARD.encode(app.vaulting.card_keys.seal(&inside, &context(&account, id))),
        ephemeral_public_key: random_hex(32),
        public_key_hash: hex(&sha256(account.app_key.as_bytes())),
        transaction_id: id.to_string(),
        signature: String::new(),
        version: VERSION.to_owned(),
        display_name: format!("{brand} {}", &number.masked()[number.masked().len() - 4..]),
        network: brand.to_owned(),
        r#type: "credit".to_owned(),
    };
    token.signature = hex(&app.vaulting.pepper.hash(&signed(&token)));
    let token = serde_json::to_string(&token).expect("texts are JSON");
    let fields = serde_json::json!({"code": "00", "description": "Success", "signature_token": token});
    Ok(Reply::new(&fields))
}

/// Opens a token that this gateway has signed for the account.
///
/// # Errors
/// F for any other, and for one that is too old.
pub fn open(app: &App, account: &Account, text: &str) -> Result<Opened> {
    let opened = read(&app.vaulting, account, text, app.clock.now());
    opened.ok_or_else(|| declined("the wallet's token is not valid"))
}

fn read(vaulting: &Vaulting, account: &Account, text: &str, now: Timestamp) -> Option<Opened> {
    let token: Token = serde_json::from_str(text).ok()?;
    let signature = hex(&vaulting.pepper.hash(&signed(&token)));
    if !bool::from(signature.as_bytes().ct_eq(token.signature.as_bytes())) || !account.is_named(&token.identify_key) {
        return None;
    }
    let id: Uuid = token.transaction_id.parse().ok()?;
    let sealed = BASE64_STANDARD.decode(&token.data).ok()?;
    let inside = vaulting.card_keys.open(&sealed, &context(account, id))?;
    let inside: Inside = serde_json::from_str(inside.expose()).ok()?;
    let signed_at = Timestamp::from_millisecond(inside.signed_ms)?;
    if now > signed_at.plus(LIFETIME) {
        return None;
    }
    let number = Number::parse(&inside.number)?;
    let face = Face::of(&number, Expiry::read(&inside.expiry)?);
    Some(Opened {
        id,
        funding: Funding {
            number,
            face,
            security_code: None,
            holder: Holder::default(),
            source: Source::Wallet,
            spends: None,
            proxy: None,
        },
        amount: Amount::hundredths(inside.hundredths),
        currency: inside.currency,
    })
}

/// All that the signature covers: every field but itself, each with its length, so that none can run into the next.
fn signed(token: &Token) -> String {
    let Token {
        identify_key,
        data,
        ephemeral_public_key,
        public_key_hash,
        transaction_id,
        signature: _,
        version,
        display_name,
        network,
        r#type,
    } = token;
    let fields = [
        identify_key,
        data,
        ephemeral_public_key,
        public_key_hash,
        transaction_id,
        version,
        display_name,
        network,
        r#type,
    ];
    fields.iter().fold("wallet".to_owned(), |all, field| format!("{all}:{}:{field}", field.len()))
}

fn context(account: &Account, id: Uuid) -> String {
    format!("wallet:{}:{id}", account.id.uuid())
}
