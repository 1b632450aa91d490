//! Fuzz tests of every request body: a mutated valid body is either parsed as sent or rejected with the field's name.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::fuzz::{check, json as mutated};

use super::*;
use crate::body::Body;

/// The field names of a JSON object; `None` for anything else.
fn fields_of(bytes: &[u8]) -> Option<Vec<String>> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return None };
    Some(fields.into_iter().map(|(key, _)| key).collect())
}

#[track_caller]
fn body<T: DeserializeOwned>(valid: Value) {
    let whole = valid.to_string();
    assert!(Body::<T>::of(Some(b"application/json"), whole.as_bytes()).is_ok(), "{whole} must be valid");
    let known: Vec<String> = fields_of(whole.as_bytes()).expect("an object");
    check(mutated(valid), |bytes| {
        let sent = fields_of(&bytes);
        match Body::<T>::of(Some(b"application/json"), &bytes) {
            Ok((_, json)) => {
                assert!(bytes.is_empty() || serde_json::from_slice::<Value>(&bytes).expect("JSON") == json)
            }
            Err(error) => {
                assert_eq!(error.status(), 422);
                let (message, param) = (error.message(), error.param());
                assert!(message.len() < 300, "the message repeats the value: {message}");
                let Some(sent) = sent else {
                    // Not JSON, or JSON with a value that cannot be read.
                    return assert!(param.is_none_or(|param| message.starts_with(param)), "{param:?}: {message}");
                };
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
fn customer_and_address_bodies() {
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
fn payment_and_card_bodies() {
    body::<payments::PaymentFields>(json!({
        "amount": 1250, "currency": "USD", "paymentToken": "tok_ok", "paymentMethodId": CARD, "capture": true,
        "returnUrl": "https://shop.example/thanks", "description": "A ticket", "customerId": CUSTOMER,
        "metadata": {"order": "1042", "gone": null}, "externalId": "o-1042",
    }));
    body::<merchant_data::MerchantDataFields>(
        json!({"metadata": {"order": "1042", "gone": null}, "externalId": "o-1042"}),
    );
    body::<payments::RefundFields>(json!({"amount": 250, "externalId": "return-1", "metadata": {"order": "1042"}}));
    body::<payments::AmountField>(json!({"amount": 250}));
    body::<payment_methods::NewCardFields>(json!({"customerId": CUSTOMER, "paymentToken": "mtok_1"}));
    body::<checkout::SessionFields>(json!({"intent": "store"}));
    body::<checkout::ExchangeFields>(json!({"sessionId": "cs_1", "upstreamToken": "fld_1"}));
}

#[test]
fn invoice_and_payment_link_bodies() {
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
fn recurring_billing_bodies() {
    body::<plans::PlanFields>(json!({
        "name": "Gold", "amount": 2900, "currency": "USD", "interval": "month", "intervalCount": 3,
    }));
    body::<subscriptions::SubscriptionFields>(json!({
        "customerId": CUSTOMER, "planId": "plan_1", "paymentMethodId": CARD, "startAt": "2026-11-21",
        "timezone": "America/New_York", "description": "Gold for two", "metadata": {"order": "1042"},
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
fn webhook_endpoint_bodies() {
    body::<webhook_endpoints::NewEndpointFields>(json!({
        "url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled", "payment.refunded"],
    }));
    body::<webhook_endpoints::EndpointFields>(json!({
        "url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled"], "status": "disabled",
    }));
}

/// Fails if a route has a body without a test above.
#[test]
fn every_body_is_tested() {
    let tested = include_str!("tests.rs").matches("\n    body::<").count();
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
    let bodies_of = |source: &str| {
        source.split("Body<").skip(1).filter_map(|rest| rest.split('>').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut bodies: Vec<_> = sources.into_iter().flat_map(bodies_of).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(tested, bodies.len(), "{bodies:?}");
}

/// The routes that reject live accounts must be those that `/v1/capabilities` reports as test only.
#[test]
fn test_only_operations_require_a_test_account() {
    for endpoint in endpoints() {
        let requires_test = matches!(endpoint.access, TestSecret(_));
        let is_test_only = endpoint.access.operation().is_some_and(Op::is_test_only);
        assert_eq!(requires_test, is_test_only, "{} {}", endpoint.method, endpoint.path);
    }
}
