//! An example of each object; testkit/tests/openapi holds them against their schemas.

use serde_json::{Value, json};

/// The objects as they may look, by the names of their schemas.
pub(super) fn all() -> [(&'static str, Value); 7] {
    let at = "2026-11-21T09:30:00.123Z";
    let customer = "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
    let payment = "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
    let card = json!({"brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034});
    [
        (
            "Capabilities",
            json!({"object": "capabilities", "data": [{"operation": "payments.create", "state": "active"}]}),
        ),
        (
            "CheckoutSession",
            json!({
                "object": "checkout_session", "livemode": false, "createdAt": at,
                "sessionId": "cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170",
                "mountUrl": "https://pay.example/elements/field/cs_4f1d0c9b8a7e6d5c4b3a29180716253443526170",
                "modifiers": {"tax": {"type": "percent", "value": 825}}, "expiresAt": "2026-11-21T10:00:00.123Z",
            }),
        ),
        (
            "Customer",
            json!({
                "id": customer, "object": "customer", "livemode": false, "createdAt": at, "email": "ada@example.com",
                "name": "ada", "externalId": "u-1815", "customFields": [{"name": "Size", "type": "text", "value": "M"}],
            }),
        ),
        (
            "Payment",
            json!({
                "id": payment, "object": "payment", "livemode": false, "createdAt": at, "status": "pending_settlement",
                "settled": false, "capture": true, "currency": "USD", "amount": 1250, "amountRequested": 1250,
                "amountCaptured": 1250, "amountRefunded": 0, "card": card, "refunds": [],
            }),
        ),
        (
            "PaymentMethod",
            json!({
                "id": "pm_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "payment_method", "livemode": false, "createdAt": at,
                "customerId": customer, "type": "card", "status": "active", "brand": "visa", "last4": "4242",
                "expMonth": 12, "expYear": 2034, "isDefault": true,
            }),
        ),
        (
            "Refund",
            json!({
                "id": "ref_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "refund", "livemode": false, "createdAt": at,
                "paymentId": payment, "amount": 250, "currency": "USD", "status": "pending",
            }),
        ),
        (
            "Token",
            json!({
                "object": "token", "livemode": false, "createdAt": at,
                "paymentToken": "mtok_4f1d0c9b8a7e6d5c4b3a29180716253443526170", "expiresAt": "2026-11-21T09:32:00.123Z",
            }),
        ),
    ]
}
