//! The answers of refusal, each once under `components.responses`, and the headers of every answer.

use serde_json::{Map, Value, json};

use crate::endpoint::{Door, Endpoint};

/// A refusal in the document. `needs` are fields of `error` that are always there.
struct Refusal {
    name: &'static str,
    status: u16,
    codes: &'static [&'static str],
    needs: &'static [&'static str],
    /// Whether the key's bucket is told: not before the key is known.
    limited: bool,
    description: &'static str,
}

const REFUSALS: &[Refusal] = &[
    Refusal {
        name: "Unauthenticated",
        status: 401,
        codes: &["authentication_failed"],
        needs: &[],
        limited: false,
        description: "The key is missing, malformed, unknown or revoked; or a live request is not signed as it must be.",
    },
    Refusal {
        name: "OriginRefused",
        status: 401,
        codes: &["authentication_failed", "no_origin_header"],
        needs: &[],
        limited: false,
        description: "There is no `Origin`, it is not on the allow-list, or the key is not valid.",
    },
    Refusal {
        name: "WrongKindOfKey",
        status: 403,
        codes: &["permission_denied"],
        needs: &[],
        limited: true,
        description: "A valid key of the wrong kind.",
    },
    Refusal {
        name: "Forbidden",
        status: 403,
        codes: &["permission_denied", "capability_not_enabled"],
        needs: &[],
        limited: true,
        description: "A valid key of the wrong kind, or in a mode that has no such thing; or without the entitlement in `capability`.",
    },
    Refusal {
        name: "NotFound",
        status: 404,
        codes: &["not_found"],
        needs: &[],
        limited: true,
        description: "No such object on this account.",
    },
    Refusal {
        name: "MethodNotAllowed",
        status: 405,
        codes: &["invalid_request"],
        needs: &[],
        limited: false,
        description: "The path does not take this method; `Allow` names those it takes. No key is needed to be told so.",
    },
    Refusal {
        name: "Conflict",
        status: 409,
        codes: &["conflict"],
        needs: &[],
        limited: true,
        description: "The state of an object refuses this.",
    },
    Refusal {
        name: "TooLarge",
        status: 413,
        codes: &["invalid_request"],
        needs: &[],
        limited: false,
        description: "The body is over 65,536 bytes.",
    },
    Refusal {
        name: "Invalid",
        status: 422,
        codes: &["invalid_request"],
        needs: &[],
        limited: true,
        description: "A field is missing or wrong: `param` names it. Without `param`, the body or the query string as a whole.",
    },
    Refusal {
        name: "TooManyRequests",
        status: 429,
        codes: &["rate_limited"],
        needs: &[],
        limited: true,
        description: "Too many requests of the key, or of the client address: `RateLimit-Policy` says which. Come again after `Retry-After` seconds.",
    },
    Refusal {
        name: "Fault",
        status: 500,
        codes: &["api_error"],
        needs: &[],
        limited: false,
        description: "Our fault; nothing was done, and sending it again is safe.",
    },
    Refusal {
        name: "Unavailable",
        status: 503,
        codes: &["api_error"],
        needs: &[],
        limited: false,
        description: "This server cannot begin anything at the moment; nothing was done, and sending it again is safe.",
    },
    Refusal {
        name: "NotSupported",
        status: 501,
        codes: &["capability_not_supported"],
        needs: &["capability"],
        limited: true,
        description: "The account's provider cannot do the operation in `capability`, ever.",
    },
];

/// Every code of an error.
pub(super) fn codes() -> Vec<&'static str> {
    let mut codes: Vec<_> = REFUSALS.iter().flat_map(|refusal| refusal.codes).copied().collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The headers of an answer, by reference.
pub(super) fn headers(limited: bool) -> Map<String, Value> {
    let names: &[&str] = if limited { &["Request-Id", "RateLimit", "RateLimit-Policy"] } else { &["Request-Id"] };
    names.iter().map(|name| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))).collect()
}

/// `components.headers`.
pub(super) fn header_components() -> Value {
    json!({
        "Request-Id": {
            "description": "Names the request when you ask us about it.",
            "required": true,
            "schema": {"type": "string", "pattern": "^req_[0-9A-HJKMNP-TV-Z]{26}$"},
        },
        "RateLimit": {
            "description": "Requests left at once, and seconds until the bucket changes for the better.",
            "required": true,
            "schema": {"type": "string", "pattern": "^\"key\";r=[0-9]+;t=[0-9]+$"},
        },
        "RateLimit-Policy": {
            "description": "Requests at once at most, and the seconds in which the bucket fills.",
            "required": true,
            "schema": {"type": "string", "pattern": "^\"key\";q=[0-9]+;w=[0-9]+$"},
        },
        "Retry-After": {
            "description": "Seconds to wait.",
            "required": true,
            "schema": {"type": "integer", "minimum": 1},
        },
        "Allow": {
            "description": "The methods that this path takes.",
            "required": true,
            "schema": {"type": "string"},
        },
    })
}

/// `components.responses`.
pub(super) fn components() -> Map<String, Value> {
    REFUSALS.iter().map(|refusal| (refusal.name.to_owned(), refusal.response())).collect()
}

impl Refusal {
    fn response(&self) -> Value {
        let mut headers = headers(self.limited);
        let extra = match self.status {
            405 => Some("Allow"),
            429 => Some("Retry-After"),
            _ => None,
        };
        if let Some(extra) = extra {
            headers.insert(extra.to_owned(), json!({"$ref": format!("#/components/headers/{extra}")}));
        }
        let particular =
            json!({"type": "object", "properties": {"code": {"enum": self.codes}}, "required": self.needs});
        let schema = json!({"allOf": [
            {"$ref": "#/components/schemas/Error"},
            {"type": "object", "properties": {"error": particular}},
        ]});
        let content = json!({"application/json": {"schema": schema}});
        json!({"description": self.description, "headers": headers, "content": content})
    }
}

/// The refusals of one operation, by status.
pub(super) fn of(endpoint: &Endpoint) -> Map<String, Value> {
    let of_all = match endpoint.door {
        Door::AnySecret => vec!["Unauthenticated", "WrongKindOfKey"],
        Door::Browser(common::capabilities::Operation::CheckoutSessionsCreate) => {
            vec!["OriginRefused", "Forbidden", "NotSupported"]
        }
        Door::Secret(_) | Door::TestSecret(_) | Door::Browser(_) => {
            vec!["Unauthenticated", "Forbidden", "NotSupported"]
        }
    };
    let applies = |refusal: &&Refusal| {
        of_all.contains(&refusal.name)
            || matches!(refusal.name, "TooLarge" | "TooManyRequests" | "Fault")
            || (refusal.name == "Unavailable" && endpoint.method != "get")
            || endpoint.sheet.refusals.contains(&refusal.status)
    };
    REFUSALS
        .iter()
        .filter(applies)
        .map(|refusal| {
            (refusal.status.to_string(), json!({"$ref": format!("#/components/responses/{}", refusal.name)}))
        })
        .collect()
}
