//! The webhooks of the document: one for each event type, with a schema of its own.

use domain::events::EventType;
use serde_json::{Map, Value, json};

use super::schemas::Named;

/// Adds the schemas of the events to `components`, and returns `webhooks`.
pub(super) fn webhooks(components: &mut Named) -> Map<String, Value> {
    let webhook = |kind: &EventType| {
        let name = format!("{}Event", pascal_case(kind.name()));
        components.insert(name.clone(), event(*kind));
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let webhook = json!({"post": {
            "operationId": format!("webhooks.{}", kind.name()),
            "summary": kind.name(),
            "requestBody": {"required": true, "content": {"application/json": {"schema": schema}}},
            "responses": {"2XX": {"description": "The event was received. After any other response it is sent again."}},
        }});
        (kind.name().to_owned(), webhook)
    };
    EventType::ALL.iter().map(webhook).collect()
}

fn event(kind: EventType) -> Value {
    let (resource, happened) = kind.name().split_once('.').unwrap_or_default();
    let object = match happened {
        "deleted" => "DeletedObject".to_owned(),
        _ => pascal_case(resource),
    };
    let reference = format!("#/components/schemas/{object}");
    let mut data = json!({"object": {"$ref": reference, "description": "The object as it was then."}});
    if matches!(kind, EventType::PaymentRefunded | EventType::PaymentRefundFailed) {
        data["refundId"] = json!({"type": "string", "description": "The refund that the event is about."});
    }
    json!({
        "type": "object",
        "description": format!("The body of a `{}` webhook.", kind.name()),
        "required": ["id", "type", "timestamp", "livemode", "data"],
        "properties": {
            "id": {"type": "string", "description": "The same in each delivery of the event."},
            "type": {"type": "string", "enum": [kind.name()], "description": "What happened."},
            "timestamp": {"type": "string", "format": "date-time", "description": "When it happened."},
            "livemode": {"type": "boolean", "description": "Whether it is about real money."},
            "data": {
                "type": "object",
                "description": "`object` is the object as it was then.",
                "required": ["object"],
                "properties": data,
            },
        },
    })
}

/// `payment_method.created` becomes `PaymentMethodCreated`.
fn pascal_case(name: &str) -> String {
    let capitalized = |word: &str| word.split_at_checked(1).map(|(first, rest)| first.to_uppercase() + rest);
    name.split(['.', '_']).filter_map(capitalized).collect()
}
