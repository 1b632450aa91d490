//! Charging and saving cards.

use serde::Deserialize;

use super::approval::approved;
use super::report::{self, Record, Type};
use super::wire::{self, Refusal, Reply, Wire};
use super::{Credentials, FieldToken, card, decline};
use crate::{Action, Card, Found, Payer, ProviderError, ProviderResponse, Request, Source};
use foundation::crypto::Secret;

/// The email address of a payer who has no valid one (RFC 2606).
const PLACEHOLDER_EMAIL: &str = "unknown@payer.invalid";

#[derive(Deserialize)]
struct Charged {
    #[serde(deserialize_with = "wire::id")]
    transaction_id: String,
    redirect_url: Option<String>,
    /// The charged total, including a fee of the gateway. Only sales return it.
    #[serde(default, deserialize_with = "wire::decimal")]
    total_amount: Option<String>,
}

#[derive(Deserialize)]
struct Stored {
    #[serde(deserialize_with = "wire::id")]
    card_token: String,
    card_type: String,
    credit_card_number: String,
    card_expiry_date: String,
}

/// Executes a sale or an authorization.
pub(super) async fn charge(
    wire: &Wire,
    account: &Credentials,
    request: &Request,
) -> Result<ProviderResponse, ProviderError> {
    let Action::Charge { source, money, capture } = &request.action else {
        return Err(ProviderError::unavailable("expected a charge"));
    };
    let (token, card) = match source {
        Source::Token(token) => {
            (token.expose().as_str(), FieldToken::verify(token.expose(), account).map(|token| token.card))
        }
        Source::Card(stored) => (stored.as_str(), None),
    };
    let endpoint = if *capture { "sale" } else { "authorize" };
    let (amount, valid_until) = (money.to_decimal(), request.valid_until.as_millisecond().to_string());
    let mut fields = vec![
        ("valid_until", valid_until.as_str()),
        ("card_token", token),
        ("amount", amount.as_str()),
        ("currency", money.currency.code()),
        ("ship_address_as_bill_address", "Y"),
        ("reference_id", request.reference.as_str()),
    ];
    fields.extend(request.return_url.as_deref().map(|url| ("3ds_redirect_url", url)));
    fields.extend(request.payer.as_ref().map(|payer| ("email", payer.email.as_str())));
    // The gateway limits the number of cards tried per address.
    fields.extend(request.payer_address.as_deref().map(|address| ("client_ip", address)));
    let mut reply = wire.post::<Charged>(endpoint, account, &fields).await?;
    // The name and email address were entered with the card. Codes 04 and 06 mean that they are missing or invalid and
    // that nothing was processed: retry with the payer's name from our books, or with a placeholder address, once each.
    for missing in ["04", "06"] {
        let (Reply::Refusal(refusal), Some(payer)) = (&reply, &request.payer) else { break };
        if refusal.code != missing {
            continue;
        }
        if missing == "04" {
            let (first, last) = split_name(payer);
            fields.extend([("first_name", first), ("last_name", last)]);
        } else {
            fields.retain(|(name, _)| *name != "email");
            fields.push(("email", PLACEHOLDER_EMAIL));
        }
        reply = wire.post::<Charged>(endpoint, account, &fields).await?;
    }
    match reply {
        Reply::Success(Charged { redirect_url: Some(url), .. }) if is_http_url(&url) => {
            Ok(ProviderResponse::Challenged { url })
        }
        Reply::Success(Charged { redirect_url: Some(_), .. }) => {
            Err(ProviderError::Unknown("a challenge without a valid URL".to_owned()))
        }
        Reply::Success(Charged { transaction_id, redirect_url: None, total_amount }) => {
            approved(transaction_id, *money, total_amount.as_deref(), card)
        }
        Reply::Refusal(refusal) => refused(wire, account, request, &refusal, card).await,
    }
}

/// Whether a browser can be redirected to it.
fn is_http_url(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

async fn refused(
    wire: &Wire,
    account: &Credentials,
    request: &Request,
    refusal: &Refusal,
    card: Option<Card>,
) -> Result<ProviderResponse, ProviderError> {
    match refusal.code.as_str() {
        // The report contains the reason.
        "F" => match look_up(wire, account, request).await? {
            Found::Response(response) => Ok(response),
            Found::Pending | Found::Nothing => Err(ProviderError::Unknown("declined, but not in the report".into())),
        },
        // Only we use our references, so this is a retry of our own request: its outcome is looked up.
        "26" => Err(ProviderError::Unknown("the reference was used before".to_owned())),
        _ => declined_or_refused(refusal, card),
    }
}

/// Looks up a charge by its reference, which only we use.
pub(super) async fn look_up(wire: &Wire, account: &Credentials, request: &Request) -> Result<Found, ProviderError> {
    let records = report::by_reference(wire, account, &request.reference).await?;
    let charges: Vec<_> = records.iter().filter(|record| record.is_charge()).collect();
    match charges.as_slice() {
        [] if records.is_empty() => Ok(Found::Nothing),
        [charge] => {
            check_matches(charge, request)?;
            charge.found()
        }
        some => Err(ProviderError::Unknown(format!("the report has {} charges under one reference", some.len()))),
    }
}

/// Checks that a record is the requested charge. Approvals are always in full, so a record with another amount is not
/// ours.
fn check_matches(record: &Record, request: &Request) -> Result<(), ProviderError> {
    let Action::Charge { money, capture, .. } = &request.action else {
        return Err(record.unknown("no charge was requested"));
    };
    let kind = if *capture { Type::Sale } else { Type::Authorize };
    let reported = record.money()?;
    if record.transaction_type == kind && reported == *money {
        return Ok(());
    }
    tracing::error!(
        operation = request.reference, provider_ref = record.transaction_id, kind = ?record.transaction_type, %reported, requested = %money,
        "the gateway reports a different charge than requested; the outcome stays unknown and needs manual review"
    );
    Err(record.unknown("a different charge than requested"))
}

/// Exchanges a card-field token for a vault token.
pub(super) async fn store_card(
    wire: &Wire,
    account: &Credentials,
    token: &Secret<String>,
) -> Result<ProviderResponse, ProviderError> {
    match wire.post::<Stored>("add_card", account, &[("card_token", token.expose())]).await? {
        Reply::Success(stored) => {
            let (month, year) = stored.card_expiry_date.split_once('/').unwrap_or_default();
            let card = card(&stored.card_type, &stored.credit_card_number, month, year);
            let card = card.ok_or_else(|| ProviderError::Unknown("the stored card has invalid details".to_owned()))?;
            Ok(ProviderResponse::Stored { provider_ref: stored.card_token, card })
        }
        Reply::Refusal(refusal) => declined_or_refused(&refusal, None),
    }
}

/// The outcome of a request that created no transaction.
fn declined_or_refused(refusal: &Refusal, card: Option<Card>) -> Result<ProviderResponse, ProviderError> {
    match decline::of_refusal(refusal) {
        Some(decline) => Ok(ProviderResponse::Declined { decline, card }),
        None => refusal.response(),
    }
}

/// Splits the name in two, as the form requires. A single word is used as both.
fn split_name(payer: &Payer) -> (&str, &str) {
    payer.name.trim().rsplit_once(char::is_whitespace).unwrap_or((&payer.name, &payer.name))
}
