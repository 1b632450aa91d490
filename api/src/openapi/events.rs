//! The webhooks of the document: one for each event type, with a schema of its own.

use domain::events::{EventType, Payload};
use serde_json::{Map, Value, json};

use super::schemas::{Named, OPEN_ENUM, of_webhook};

/// Adds the schemas of the events to `components`, and returns `webhooks`.
pub(super) fn webhooks(components: &mut Named) -> Map<String, Value> {
    let payload = of_webhook::<Payload<'_, Value>>();
    let webhook = |kind: &EventType| {
        let name = format!("{}Event", pascal_case(kind.name()));
        components.insert(name.clone(), event(*kind, payload.clone()));
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let webhook = json!({"post": {
            "operationId": format!("webhooks.{}", kind.name()),
            "summary": kind.name(),
            "description": kind.meaning(),
            "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
            "responses": {"2XX": {"description": "The event was received. After any other response it is sent again."}},
        }});
        (kind.name().to_owned(), webhook)
    };
    EventType::ALL.iter().map(webhook).collect()
}

/// Narrows the schema of all events to one type.
fn event(kind: EventType, mut payload: Value) -> Value {
    let (resource, happened) = kind.name().split_once('.').unwrap_or_default();
    let object = match happened {
        "deleted" => "DeletedObject".to_owned(),
        _ => pascal_case(resource),
    };
    payload["description"] = json!(format!("The body of a `{}` webhook.", kind.name()));
    let is_about_a_refund = matches!(kind, EventType::PaymentRefunded | EventType::PaymentRefundFailed);
    let fields = &mut payload["properties"];
    let reference = format!("#/components/schemas/{object}");
    fields["data"]["properties"]["object"] = json!({"$ref": reference, "description": "The object as it was then."});
    if let Some(data) = fields["data"]["properties"].as_object_mut().filter(|_| !is_about_a_refund) {
        data.remove("refundId");
    }
    if let Some(of_all) = fields["type"].as_object_mut() {
        of_all.remove(OPEN_ENUM);
        of_all.insert("enum".to_owned(), json!([kind.name()]));
    }
    payload
}

/// `payment_method.created` becomes `PaymentMethodCreated`.
fn pascal_case(name: &str) -> String {
    let capitalized = |word: &str| word.split_at_checked(1).map(|(first, rest)| first.to_uppercase() + rest);
    name.split(['.', '_']).filter_map(capitalized).collect()
}
