//! What a key may do at Stripe. This is queried when an operator connects the account, so that a key without a right is
//! rejected then and not by its first payment.

use serde::Deserialize;

use super::Credentials;
use super::wire::{Form, Session, Wire};
use crate::ProviderError;

/// What the adapter reads, by Stripe's name of the permission.
const READS: [(&str, &str); 7] = [
    ("PaymentIntents: read", "/v1/payment_intents?limit=1"),
    ("Charges: read", "/v1/charges?limit=1"),
    ("PaymentMethods: read", "/v1/payment_methods?limit=1"),
    ("Refunds: read", "/v1/refunds?limit=1"),
    ("Disputes: read", "/v1/disputes?limit=1"),
    ("Balance transactions: read", "/v1/balance_transactions?limit=1&expand[]=data.source"),
    ("Customers: read", "/v1/customers?limit=1"),
];

/// What it writes, with a field that Stripe refuses for its value, so that nothing is created.
const WRITES: [(&str, &str, (&str, &str)); 4] = [
    ("PaymentIntents: write", "/v1/payment_intents", ("amount", "none")),
    ("Refunds: write", "/v1/refunds", ("amount", "none")),
    ("SetupIntents: write", "/v1/setup_intents", ("payment_method_types[]", "none")),
    ("Customers: write", "/v1/customers", ("email", "none")),
];

/// Reads the account's id, so that no two accounts of ours are connected to it.
const ACCOUNT: (&str, &str) = ("Account information: read", "/v1/account");

#[derive(Debug)]
pub enum AtStripe {
    /// The account with this id (`acct_…`), whose key has all permissions.
    Known(String),
    /// The permissions that the key lacks.
    Lacks(Vec<&'static str>),
    /// Stripe does not accept the key.
    WrongKey(String),
    /// No response, or one that cannot be parsed, with the reason.
    NoResponse(String),
}

#[derive(Deserialize)]
struct Account {
    id: String,
}

/// Queries Stripe, or another server at this base URL, for the account of a key and its permissions.
pub async fn check(base: Option<String>, account: &Credentials) -> AtStripe {
    let wire = Wire::new(base.unwrap_or_else(|| super::BASE_URL.to_owned()));
    match checked(wire.with(account)).await {
        Ok(known) => known,
        Err(ProviderError::NotProcessed { cause: crate::Cause::Credentials, reason }) => AtStripe::WrongKey(reason),
        Err(error) => AtStripe::NoResponse(error.to_string()),
    }
}

async fn checked(stripe: Session<'_>) -> Result<AtStripe, ProviderError> {
    let mut missing = Vec::new();
    for (permission, path) in [ACCOUNT].into_iter().chain(READS) {
        if stripe.is_forbidden(path, None).await? {
            missing.push(permission);
        }
    }
    for (permission, path, (name, value)) in WRITES {
        if stripe.is_forbidden(path, Some(Form::new().with(name, value))).await? {
            missing.push(permission);
        }
    }
    if !missing.is_empty() {
        return Ok(AtStripe::Lacks(missing));
    }
    let known: Option<Account> = stripe.get(ACCOUNT.1).await?;
    let known = known.ok_or_else(|| ProviderError::Unknown("Stripe names no account".to_owned()))?;
    Ok(AtStripe::Known(known.id))
}
