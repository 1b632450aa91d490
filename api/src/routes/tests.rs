//! Bodies of every route that takes one: right ones with a change. They are read as what they say, or the field is named.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::fuzz::{check, json as mutated};

use super::*;
use crate::body::Body;

/// The fields of a body that is JSON and an object; none if it is anything else.
fn fields_of(bytes: &[u8]) -> Option<Vec<String>> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return None };
    Some(fields.into_iter().map(|(key, _)| key).collect())
}

#[track_caller]
fn body<T: DeserializeOwned>(valid: Value) {
    let whole = valid.to_string();
    assert!(Body::<T>::of(Some(b"application/json"), whole.as_bytes()).is_ok(), "{whole} is not right to begin with");
    let known: Vec<String> = fields_of(whole.as_bytes()).expect("an object");
    check(mutated(valid), |bytes| {
        let sent = fields_of(&bytes);
        match Body::<T>::of(Some(b"application/json"), &bytes) {
            Ok((_, json)) => {
                assert!(bytes.is_empty() || serde_json::from_slice::<Value>(&bytes).expect("JSON") == json)
            }
            Err(refusal) => {
                assert_eq!(refusal.status(), 422);
                let (message, param) = (refusal.message(), refusal.param());
                assert!(message.len() < 300, "it repeats what was sent: {message}");
                let Some(sent) = sent else { return assert_eq!(param, None, "no field is at fault: {message}") };
                let param = param.expect(message);
                let field = param.split(['.', '[']).next().unwrap_or_default();
                let is_named = known.iter().any(|known| known == field)
                    || sent.iter().any(|key| param.starts_with(&crate::body::field("", key)));
                assert!(is_named && message.starts_with(param), "{param:?}: {message}");
            }
        }
    });
}

const CUSTOMER: &str = "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
const CARD: &str = "pm_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";

fn items() -> Value {
    json!([{"description": "Hours", "quantity": 4, "unitAmount": 2500}, {"description": "Fee", "quantity": 1, "unitAmount": 0}])
}

#[test]
fn customers_and_addresses() {
    body::<customers::CustomerFields>(json!({
        "email": "ada@example.com", "name": "Ada", "phone": "+44 1", "externalId": "u-1815",
        "customFields": [{"name": "Size", "type": "text", "value": "M"}],
    }));
    body::<addresses::AddressFields>(json!({
        "customerId": CUSTOMER, "firstName": "Ada", "lastName": "Lovelace", "company": "A", "line1": "12 St James's Square",
        "line2": "2", "city": "London", "state": "L", "postalCode": "SW1Y 4LB", "country": "GB", "phone": "1",
    }));
    body::<addresses::RoleField>(json!({"type": "billing"}));
}

#[test]
fn payments_and_cards() {
    body::<payments::PaymentFields>(json!({
        "amount": 1250, "currency": "USD", "paymentToken": "tok_ok", "paymentMethodId": CARD, "capture": true,
        "returnUrl": "https://shop.example/thanks",
    }));
    body::<payments::RefundFields>(json!({"amount": 250, "externalId": "return-1"}));
    body::<payments::AmountField>(json!({"amount": 250}));
    body::<payment_methods::NewCardFields>(json!({"customerId": CUSTOMER, "paymentToken": "mtok_1"}));
    body::<checkout::SessionFields>(json!({"intent": "store"}));
    body::<checkout::ExchangeFields>(json!({"sessionId": "cs_1", "upstreamToken": "fld_1"}));
}

#[test]
fn invoices_and_links() {
    body::<invoices::InvoiceFields>(json!({
        "customerId": CUSTOMER, "currency": "USD", "description": "November", "amount": 10825, "items": items(),
        "amountTax": 825, "amountDiscount": 1, "dueAt": "2026-12-21T09:30:00Z", "paymentTerms": "net_30",
    }));
    body::<invoices::ScheduleFields>(json!({"collectAt": "2026-12-21T09:30:00+01:00", "paymentMethodId": CARD}));
    body::<payment_links::PaymentLinkFields>(json!({
        "amount": 4200, "currency": "USD", "description": "A ticket", "expiresAt": "2026-12-21T09:30:00Z",
    }));
}

#[test]
fn what_comes_again_and_again() {
    body::<plans::PlanFields>(json!({
        "name": "Gold", "amount": 2900, "currency": "USD", "interval": "month", "intervalCount": 3,
    }));
    body::<subscriptions::SubscriptionFields>(json!({
        "customerId": CUSTOMER, "planId": "plan_1", "paymentMethodId": CARD, "startAt": "2026-11-21",
        "timezone": "America/New_York",
    }));
    body::<recurring_invoices::RecurringInvoiceFields>(json!({
        "customerId": CUSTOMER, "name": "Rent", "cadence": {"unit": "monthly", "interval": 1, "dayOfMonth": 31},
        "lastDayOfMonth": false, "startDate": "2027-01-01", "endDate": "2028-01-01", "mode": "auto_send",
        "template": {"currency": "USD", "paymentTerms": "net_7", "description": "Rent", "items": items(), "amountTax": 1,
            "amountDiscount": 2},
    }));
    body::<test_clock::AdvanceFields>(json!({"to": "2026-12-21T09:30:00Z"}));
}

#[test]
fn webhook_endpoints() {
    body::<webhook_endpoints::NewEndpointFields>(json!({
        "url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled", "payment.refunded"],
    }));
    body::<webhook_endpoints::EndpointFields>(json!({
        "url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled"], "status": "disabled",
    }));
}

/// A route whose body is not tried above would be left out in silence.
#[test]
fn every_body_is_tried() {
    let tried = include_str!("tests.rs").matches("\n    body::<").count();
    let sources = [
        include_str!("addresses.rs"),
        include_str!("capabilities.rs"),
        include_str!("checkout.rs"),
        include_str!("collections.rs"),
        include_str!("customers.rs"),
        include_str!("invoices.rs"),
        include_str!("payment_links.rs"),
        include_str!("payment_methods.rs"),
        include_str!("payments.rs"),
        include_str!("plans.rs"),
        include_str!("recurring_invoices.rs"),
        include_str!("subscriptions.rs"),
        include_str!("test_clock.rs"),
        include_str!("webhook_deliveries.rs"),
        include_str!("webhook_endpoints.rs"),
    ];
    let taken = |source: &str| {
        source.split("Body<").skip(1).filter_map(|rest| rest.split('>').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut taken: Vec<_> = sources.into_iter().flat_map(taken).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(tried, taken.len(), "{taken:?}");
}

/// `/v1/capabilities` says that a live account cannot do what its routes refuse to it.
#[test]
fn the_operations_of_test_accounts_alone_are_behind_their_door() {
    for endpoint in endpoints() {
        let behind = matches!(endpoint.door, TestSecret(_));
        let is_test_only = endpoint.operation().is_some_and(Op::is_test_only);
        assert_eq!(behind, is_test_only, "{} {}", endpoint.method, endpoint.path);
    }
}
