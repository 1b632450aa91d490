//! An example of each object; testkit/tests/openapi validates them against their schemas.

use serde_json::{Value, json};

/// Examples by schema name.
pub(super) fn all() -> [(&'static str, Value); 17] {
    let at = "2026-11-21T09:30:00.123Z";
    let customer = "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
    let payment = "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
    let endpoint = "we_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
    let card = json!({"brand": "visa", "last4": "4242", "expMonth": 12, "expYear": 2034});
    [
        (
            "Address",
            json!({
                "id": "adr_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "address", "livemode": false, "createdAt": at,
                "customerId": customer, "firstName": "Ada", "lastName": "Lovelace", "line1": "12 St James's Square",
                "city": "London", "postalCode": "SW1Y 4LB", "country": "GB", "isDefaultBilling": true,
                "isDefaultShipping": false,
            }),
        ),
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
        ("DeletedWebhookEndpoint", json!({"id": endpoint, "object": "webhook_endpoint", "deleted": true})),
        (
            "Invoice",
            json!({
                "id": "inv_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "invoice", "livemode": false, "createdAt": at,
                "customerId": customer, "status": "open", "number": "INV-000001", "currency": "USD", "amount": 10825,
                "amountTax": 825, "amountPaid": 0, "description": "November",
                "items": [{"description": "Hours", "quantity": 4, "unitAmount": 2500}], "paymentTerms": "net_30",
                "issuedAt": at, "dueAt": "2026-12-21T09:30:00.123Z",
                "url": "https://pay.example/pay/i/4f1d0c9b8a7e6d5c4b3a29180716253443526170",
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
            "PaymentLink",
            json!({
                "id": "plink_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "payment_link", "livemode": false, "createdAt": at,
                "status": "open", "amount": 4200, "currency": "USD", "description": "A ticket",
                "url": "https://pay.example/pay/l/4f1d0c9b8a7e6d5c4b3a29180716253443526170",
                "expiresAt": "2026-12-21T09:30:00.123Z",
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
            "Plan",
            json!({
                "id": "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "plan", "livemode": false, "createdAt": at,
                "name": "Gold", "amount": 2900, "currency": "USD", "interval": "month", "intervalCount": 1,
            }),
        ),
        (
            "RecurringInvoice",
            json!({
                "id": "rinv_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "recurring_invoice", "livemode": false, "createdAt": at,
                "customerId": customer, "name": "Rent", "status": "active",
                "cadence": {"unit": "monthly", "interval": 1, "dayOfMonth": 31}, "lastDayOfMonth": false,
                "startDate": "2027-01-01", "mode": "auto_send",
                "template": {
                    "currency": "USD", "paymentTerms": "net_7",
                    "items": [{"description": "Rent", "quantity": 1, "unitAmount": 95000}],
                },
                "nextInvoiceDate": "2027-01-31", "occurrenceCount": 0,
            }),
        ),
        (
            "Refund",
            json!({
                "id": "ref_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "refund", "livemode": false, "createdAt": at,
                "paymentId": payment, "amount": 250, "currency": "USD", "status": "pending",
            }),
        ),
        ("TestClock", json!({"object": "test_clock", "now": "2026-12-21T09:30:00.000Z"})),
        (
            "Subscription",
            json!({
                "id": "sub_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "subscription", "livemode": false, "createdAt": at,
                "customerId": customer, "planId": "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "status": "active",
                "startAt": "2026-11-21", "timezone": "UTC", "currentPeriodStart": "2026-11-21T00:00:00.000Z",
                "currentPeriodEnd": "2026-12-21T00:00:00.000Z", "nextBillingAt": "2026-12-21T00:00:00.000Z",
            }),
        ),
        (
            "Token",
            json!({
                "object": "token", "livemode": false, "createdAt": at,
                "paymentToken": "mtok_4f1d0c9b8a7e6d5c4b3a29180716253443526170", "expiresAt": "2026-11-21T09:32:00.123Z",
            }),
        ),
        (
            "WebhookDelivery",
            json!({
                "id": "whd_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "object": "webhook_delivery", "livemode": false, "createdAt": at,
                "eventId": "evt_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "eventType": "payment.settled", "endpointId": endpoint,
                "attempt": 1, "status": "failed", "responseStatus": 503, "responseBody": "busy", "durationMs": 84,
                "attemptedAt": at, "nextAttemptAt": "2026-11-21T09:30:05.207Z", "failureReason": "status",
                "payload": "{\"id\":\"evt_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7\",\"type\":\"payment.settled\"}",
            }),
        ),
        (
            "WebhookEndpoint",
            json!({
                "id": endpoint, "object": "webhook_endpoint", "livemode": false, "createdAt": at,
                "url": "https://shop.example/webhooks", "enabledEvents": ["payment.settled", "payment.refunded"],
                "status": "enabled",
            }),
        ),
    ]
}
