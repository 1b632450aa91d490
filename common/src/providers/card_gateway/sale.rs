//! Charging a card, and keeping one.

use serde::Deserialize;

use super::report::{self, Record, Type};
use super::wire::{self, Refusal, Reply, Wire};
use super::{Credentials, FieldToken, card, decline};
use crate::crypto::Secret;
use crate::money::Money;
use crate::proof::{self, Rule};
use crate::providers::{Action, Answer, Card, Fault, Found, Payer, Request, Source};

/// The address of a payer who has none that a form takes (RFC 2606).
const NOBODY: &str = "unknown@payer.invalid";

#[derive(Deserialize)]
struct Charged {
    #[serde(deserialize_with = "wire::name")]
    transaction_id: String,
    redirect_url: Option<String>,
    /// What was charged, a fee of the gateway's included; a sale alone says so.
    #[serde(default, deserialize_with = "wire::decimal")]
    total_amount: Option<String>,
}

#[derive(Deserialize)]
struct Stored {
    #[serde(deserialize_with = "wire::name")]
    card_token: String,
    card_type: String,
    credit_card_number: String,
    card_expiry_date: String,
}

/// A sale or an authorization.
pub(super) async fn charge(wire: &Wire, account: &Credentials, request: &Request) -> Result<Answer, Fault> {
    let Action::Charge { source, money, capture } = &request.action else {
        return Err(Fault::unavailable("no charge"));
    };
    let (token, card) = match source {
        Source::Token(token) => {
            (token.expose().as_str(), FieldToken::verify(token.expose(), account).map(|token| token.card))
        }
        Source::Card(stored) => (stored.as_str(), None),
    };
    let script = if *capture { "sale" } else { "authorize" };
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
    // It counts by it who tries many cards.
    fields.extend(request.payer_address.as_deref().map(|address| ("client_ip", address)));
    let mut reply = wire.post::<Charged>(script, account, &fields).await?;
    // Who the cardholder is was asked where the card was entered. If it was not, nothing has happened yet, and our books know;
    // and instead of an address that the gateway takes for none it is given another. Each is tried once.
    for lacking in ["04", "06"] {
        let (Reply::Refusal(refusal), Some(payer)) = (&reply, &request.payer) else { break };
        if refusal.code != lacking {
            continue;
        }
        if lacking == "04" {
            let (first, last) = names(payer);
            fields.extend([("first_name", first), ("last_name", last)]);
        } else {
            fields.retain(|(name, _)| *name != "email");
            fields.push(("email", NOBODY));
        }
        reply = wire.post::<Charged>(script, account, &fields).await?;
    }
    match reply {
        Reply::Success(Charged { redirect_url: Some(url), .. }) if is_address(&url) => Ok(Answer::Challenged { url }),
        Reply::Success(Charged { redirect_url: Some(_), .. }) => {
            Err(Fault::Unknown("a challenge without an address".to_owned()))
        }
        Reply::Success(Charged { transaction_id, redirect_url: None, total_amount }) => {
            approved(transaction_id, *money, total_amount.as_deref(), card)
        }
        Reply::Refusal(refusal) => refused(wire, account, request, &refusal, card).await,
    }
}

/// An approval of the total that was asked, or of another.
///
/// # Errors
/// [`Fault::Unknown`] if the total is no amount: the report is asked for it.
pub(super) fn approved(
    provider_ref: String,
    asked: Money,
    total: Option<&str>,
    card: Option<Card>,
) -> Result<Answer, Fault> {
    let total = match total {
        Some(text) => Money::from_decimal(text, asked.currency).map(|money| money.minor),
        None => Some(asked.minor),
    };
    match total {
        Some(total) if total == asked.minor || !proof::holds(Rule::Total) => {
            Ok(Answer::Charged { provider_ref, amount: asked.minor, card })
        }
        Some(total) => Ok(Answer::Mismatched { provider_ref, total }),
        None => Err(Fault::Unknown("a total that is no amount".to_owned())),
    }
}

/// Where a browser can go.
fn is_address(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

async fn refused(
    wire: &Wire,
    account: &Credentials,
    request: &Request,
    refusal: &Refusal,
    shown: Option<Card>,
) -> Result<Answer, Fault> {
    match refusal.code.as_str() {
        // The report says why, in words of its own.
        "F" => match look_up(wire, account, request).await? {
            Found::Answer(answer) => Ok(answer),
            Found::Pending | Found::Nothing => {
                Err(Fault::Unknown("declined, but the report says nothing of it".into()))
            }
        },
        // Our own request, for nobody else uses our references: what became of it is looked up.
        "26" => Err(Fault::Unknown("the reference was used before".to_owned())),
        _ => match decline::of_refusal(refusal) {
            Some(decline) => Ok(Answer::Declined { decline, card: shown }),
            None => refusal.answer(),
        },
    }
}

/// What became of a charge. Nobody else uses its reference.
pub(super) async fn look_up(wire: &Wire, account: &Credentials, request: &Request) -> Result<Found, Fault> {
    let records = report::by_reference(wire, account, &request.reference).await?;
    let charges: Vec<_> = records.iter().filter(|record| record.is_charge()).collect();
    match charges.as_slice() {
        [] if records.is_empty() => Ok(Found::Nothing),
        [charge] => {
            is_asked(charge, request)?;
            charge.found()
        }
        some => Err(Fault::Unknown(format!("the report has {} charges under one reference", some.len()))),
    }
}

/// Whether a record is about what was asked. Approvals are of the whole amount, so one of another is not ours to book.
fn is_asked(record: &Record, request: &Request) -> Result<(), Fault> {
    let Action::Charge { money, capture, .. } = &request.action else {
        return Err(record.unknown("no charge was asked"));
    };
    let kind = if *capture { Type::Sale } else { Type::Authorize };
    let reported = record.money()?;
    if record.transaction_type == kind && reported == *money {
        return Ok(());
    }
    tracing::error!(
        operation = request.reference, provider_ref = record.transaction_id, kind = ?record.transaction_type, %reported, asked = %money,
        "the gateway reports another charge than was asked: its outcome stays unknown until a person has looked into it"
    );
    Err(record.unknown("another charge than was asked"))
}

/// Changes a token of the capture field for one of the vault.
pub(super) async fn store_card(wire: &Wire, account: &Credentials, token: &Secret<String>) -> Result<Answer, Fault> {
    match wire.post::<Stored>("add_card", account, &[("card_token", token.expose())]).await? {
        Reply::Success(stored) => {
            let (month, year) = stored.card_expiry_date.split_once('/').unwrap_or_default();
            let card = card(&stored.card_type, &stored.credit_card_number, month, year);
            let card = card.ok_or_else(|| Fault::Unknown("a stored card that looks like none".to_owned()))?;
            Ok(Answer::Stored { provider_ref: stored.card_token, card })
        }
        Reply::Refusal(refusal) => refusal.answer(),
    }
}

/// The name in two pieces, as the form wants it. A name of one word is both.
fn names(payer: &Payer) -> (&str, &str) {
    payer.name.trim().rsplit_once(char::is_whitespace).unwrap_or((&payer.name, &payer.name))
}
