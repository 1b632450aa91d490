//! Wallet tokens. The sandbox wallet is this gateway: it signs a token for a test card, and a wallet sale opens it.
//! Amount, currency and card are encrypted in it and bound to the token's id, so they cannot be changed.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use foundation::crypto::{hex, random_hex, sha256};
use foundation::time::Timestamp;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::accounts::{Account, CryptoKeys};
use crate::amount::Amount;
use crate::cards::funding::{Funding, Source};
use crate::cards::{CardNumber, Cardholder, Expiry, MaskedCard};
use crate::failure::{Code, Result};
use crate::id::TransactionId;

/// How long a token is valid.
const LIFETIME: Duration = Duration::from_secs(10 * 60);
const VERSION: &str = "EC_v1";
/// The default card of the sandbox wallet.
const TEST_CARD: &str = "4111111111111111";
/// The cards that the sandbox wallet accepts.
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

/// A wallet signature token with the contract's field names.
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

/// The decrypted content of `data`.
#[derive(Serialize, Deserialize)]
struct Payload {
    number: String,
    expiry: String,
    hundredths: i64,
    currency: String,
    signed_ms: i64,
}

/// A verified token.
#[derive(Debug)]
pub struct OpenedToken {
    /// The token's id; one sale uses it up.
    pub id: Uuid,
    pub funding: Funding,
    /// The amount that the wallet's owner confirmed.
    pub amount: Amount,
    pub currency: String,
}

/// The card of that number, by default the first test card, if the sandbox wallet accepts it.
pub fn test_card(number: Option<&str>) -> Option<CardNumber> {
    CardNumber::parse(number.unwrap_or(TEST_CARD)).filter(|number| TEST_CARDS.contains(&number.expose()))
}

/// Signs a token for a test card, as the sandbox wallet does when its owner confirms.
pub fn sign(
    crypto: &CryptoKeys,
    account: &Account,
    number: &CardNumber,
    amount: Amount,
    currency: String,
    now: Timestamp,
) -> String {
    let id = TransactionId::new(now).uuid();
    let payload = Payload {
        number: number.expose().to_owned(),
        expiry: "12/2034".to_owned(),
        hundredths: amount.get(),
        currency,
        signed_ms: now.as_millisecond(),
    };
    let payload = serde_json::to_string(&payload).expect("strings and numbers serialize to JSON");
    let brand = number.brand().name();
    let mut token = Token {
        identify_key: account.app_key.clone(),
        data: BASE64_STANDARD.encode(crypto.card_keys.seal(&payload, &context(account, id))),
        ephemeral_public_key: random_hex(32),
        public_key_hash: hex(&sha256(account.app_key.as_bytes())),
        transaction_id: id.to_string(),
        signature: String::new(),
        version: VERSION.to_owned(),
        display_name: format!("{brand} {}", &number.masked()[number.masked().len() - 4..]),
        network: brand.to_owned(),
        r#type: "credit".to_owned(),
    };
    token.signature = hex(&crypto.pepper.hash(&signed_text(&token)));
    serde_json::to_string(&token).expect("strings serialize to JSON")
}

/// Verifies and decrypts a token that this gateway has signed for the account.
///
/// # Errors
/// F for an invalid or expired token.
pub fn open(crypto: &CryptoKeys, account: &Account, text: &str, now: Timestamp) -> Result<OpenedToken> {
    verify(crypto, account, text, now).ok_or_else(|| Code::Declined.because("the wallet's token is not valid"))
}

fn verify(crypto: &CryptoKeys, account: &Account, text: &str, now: Timestamp) -> Option<OpenedToken> {
    let token: Token = serde_json::from_str(text).ok()?;
    let signature = hex(&crypto.pepper.hash(&signed_text(&token)));
    if !bool::from(signature.as_bytes().ct_eq(token.signature.as_bytes())) || !account.has_app_key(&token.identify_key)
    {
        return None;
    }
    let id: Uuid = token.transaction_id.parse().ok()?;
    let sealed = BASE64_STANDARD.decode(&token.data).ok()?;
    let payload = crypto.card_keys.open(&sealed, &context(account, id))?;
    let payload: Payload = serde_json::from_str(payload.expose()).ok()?;
    let signed_at = Timestamp::from_millisecond(payload.signed_ms)?;
    if now > signed_at.plus(LIFETIME) {
        return None;
    }
    let number = CardNumber::parse(&payload.number)?;
    let masked_card = MaskedCard::of(&number, Expiry::from_display(&payload.expiry)?);
    Some(OpenedToken {
        id,
        funding: Funding {
            number,
            masked_card,
            security_code: None,
            holder: Cardholder::default(),
            source: Source::Wallet,
            field_token: None,
            proxy: None,
        },
        amount: Amount::from_minor(payload.hundredths),
        currency: payload.currency,
    })
}

/// The signed text: every field except the signature, prefixed with its length so that field boundaries are
/// unambiguous.
fn signed_text(token: &Token) -> String {
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
