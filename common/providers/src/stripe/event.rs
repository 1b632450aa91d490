//! Events that Stripe sends (docs.stripe.com/webhooks). An event proves nothing about a payment: it names what is to be
//! looked up.

use std::time::Duration;

use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::objects::{Metadata, REFERENCE};
use super::wire;
use foundation::crypto::{Secret, hex, hmac_sha256};
use foundation::time::Timestamp;

/// How far the time of a signature may be from ours, as in Stripe's own libraries.
const TOLERANCE: Duration = Duration::from_secs(300);

/// What an event concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Our provider's reference of a payment (`pi_…`).
    pub payment: Option<String>,
    /// Our reference of a charge or refund.
    pub reference: Option<String>,
}

#[derive(Deserialize)]
struct Envelope {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    id: Option<String>,
    payment_intent: Option<String>,
    #[serde(default)]
    metadata: Metadata,
}

/// The header `Stripe-Signature` of a body that is not verified yet.
pub struct Signature<'a> {
    /// When the body was signed, in seconds since 1970, as sent.
    at: &'a str,
    /// There are several while a secret is being replaced.
    values: Vec<&'a str>,
}

impl<'a> Signature<'a> {
    /// `None` for a header of another form, or of another time than now.
    pub fn recent(header: &'a str, now: Timestamp) -> Option<Self> {
        let values = |name: &'static str| header.split(',').filter_map(move |part| part.trim().strip_prefix(name));
        let (at, values) = (values("t=").next()?, values("v1=").collect());
        let age = now.as_millisecond().abs_diff(at.parse::<i64>().ok()?.checked_mul(1000)?);
        (u128::from(age) <= TOLERANCE.as_millis()).then_some(Self { at, values })
    }
}

impl Event {
    /// Verifies the signature (docs.stripe.com/webhooks, "Verify webhook signatures manually") and reads the event.
    /// `None` for a wrong signature, or a body that is no event.
    pub fn read(signature: &Signature<'_>, body: &[u8], secret: &Secret<String>) -> Option<Self> {
        let signed = [signature.at.as_bytes(), b".", body].concat();
        let expected = hex(&hmac_sha256(secret.expose().as_bytes(), &signed));
        let is_right = signature.values.iter().any(|value| value.as_bytes().ct_eq(expected.as_bytes()).into());
        is_right.then_some(())?;
        let Envelope { data: Data { object } } = serde_json::from_slice(body).ok()?;
        let is_payment = |id: &String| wire::is_id("pi_", id);
        Some(Self {
            payment: object.id.filter(is_payment).or_else(|| object.payment_intent.filter(is_payment)),
            reference: object.metadata.get(REFERENCE).map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::stripe::sign;

    const NOW: i64 = 1_800_000_000;

    fn read(signature: &str, body: &str) -> Option<Event> {
        let now = Timestamp::from_millisecond(NOW * 1000).expect("in range");
        Event::read(&Signature::recent(signature, now)?, body.as_bytes(), &Secret::new("whsec_1".to_owned()))
    }

    #[test]
    fn only_a_recent_signature_of_the_body_is_accepted() {
        let body = r#"{"data": {"object": {"id": "pi_1", "metadata": {"reference": "op_1"}}}}"#;
        let event = Event { payment: Some("pi_1".to_owned()), reference: Some("op_1".to_owned()) };
        let signature = sign("whsec_1", NOW, body);
        assert_eq!(read(&signature, body), Some(event.clone()));
        let two = format!("{signature},v1={}", "0".repeat(64));
        assert_eq!(read(&two, body), Some(event.clone()), "a second one by another secret");
        for at in [NOW - 300, NOW + 300] {
            assert_eq!(read(&sign("whsec_1", at, body), body), Some(event.clone()), "{at}");
        }
        for at in [NOW - 301, NOW + 301, i64::MAX] {
            assert_eq!(read(&sign("whsec_1", at, body), body), None, "{at}");
        }
        assert_eq!(read(&signature, &body.replace("pi_1", "pi_2")), None, "another body");
        assert_eq!(read(&sign("whsec_2", NOW, body), body), None, "another secret");
        for wrong in ["", "t=", "v1=", "t=x,v1=y", &signature.replace("v1", "v0")] {
            assert_eq!(read(wrong, body), None, "{wrong}");
        }
        assert_eq!(read(&sign("whsec_1", NOW, "{}"), "{}"), None, "no event");
    }

    #[test]
    fn an_event_names_its_payment() {
        let payment = |object: &str| {
            let body = format!(r#"{{"data": {{"object": {object}}}}}"#);
            read(&sign("whsec_1", NOW, &body), &body).expect("an event").payment
        };
        assert_eq!(payment(r#"{"id": "ch_1", "payment_intent": "pi_1"}"#).as_deref(), Some("pi_1"));
        assert_eq!(payment(r#"{"id": "du_1", "payment_intent": "pi_1"}"#).as_deref(), Some("pi_1"));
        assert_eq!(payment(r#"{"id": "re_1", "payment_intent": "pi_1", "metadata": null}"#).as_deref(), Some("pi_1"));
        assert_eq!(payment(r#"{"id": "po_1"}"#), None);
        assert_eq!(payment(r#"{"id": "pi_'; DROP"}"#), None);
    }
}
