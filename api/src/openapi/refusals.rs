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

/// What each code means, and what to do about it.
const EXPLANATIONS: &[(&str, &str)] = &[
    (
        "api_error",
        "Our fault, or this server cannot begin anything at the moment. Nothing was done: send the same again.",
    ),
    (
        "authentication_failed",
        "The key is missing, malformed, unknown, revoked or sent twice; a live request is not signed as it must be; or the page's \
         origin is not allowed. The message says which, but not why a key is not valid.",
    ),
    (
        "capability_not_enabled",
        "The key lacks the entitlement in `capability`, or the account's settings forbid it. It may change: ask us.",
    ),
    ("capability_not_supported", "The provider of the account cannot do the operation in `capability`. Never retry."),
    ("conflict", "The state of the object refuses this. Retrieve it, and decide anew."),
    (
        "invalid_request",
        "A field, a query parameter or a header is missing, wrong, unknown or sent twice: `param` names it. Without `param`, the body \
         as a whole is no JSON object. The same request is refused again: mend it.",
    ),
    ("no_origin_header", "A checkout session is started by a page in a browser, which sends `Origin`."),
    (
        "not_found",
        "No such path, or no such object on this account. Another account's object, and one of the other mode, give the same answer.",
    ),
    ("permission_denied", "A valid key of the wrong kind or mode for this operation."),
    ("rate_limited", "Too many requests. Nothing was done: wait as long as `Retry-After` says."),
];

/// Each code with the statuses that it comes with, and what it means.
pub(super) fn explained() -> impl Iterator<Item = (&'static str, Vec<u16>, &'static str)> {
    codes().into_iter().map(|code| {
        let of_code = REFUSALS.iter().filter(|refusal| refusal.codes.contains(&code));
        let mut statuses: Vec<_> = of_code.map(|refusal| refusal.status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        let text = EXPLANATIONS.iter().find(|(known, _)| *known == code).map_or("", |(_, text)| text);
        (code, statuses, text)
    })
}

/// The headers of an answer, by reference.
pub(super) fn headers(limited: bool) -> Map<String, Value> {
    let of_all = ["Request-Id", "Cache-Control", "X-Content-Type-Options"];
    let names = of_all.iter().chain(["RateLimit", "RateLimit-Policy"].iter().filter(|_| limited));
    names.map(|name| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))).collect()
}

/// `components.headers`.
pub(super) fn header_components() -> Value {
    json!({
        "Request-Id": {
            "description": "Names the request when you ask us about it.",
            "required": true,
            "schema": {"type": "string", "pattern": "^req_[0-9A-HJKMNP-TV-Z]{26}$"},
        },
        "Cache-Control": {
            "description": "No answer is kept on its way.",
            "required": true,
            "schema": {"type": "string", "enum": ["no-store"]},
        },
        "X-Content-Type-Options": {
            "description": "What is said to be JSON is read as nothing else.",
            "required": true,
            "schema": {"type": "string", "enum": ["nosniff"]},
        },
        "WWW-Authenticate": {
            "description": "What a key is sent as.",
            "required": true,
            "schema": {"type": "string", "enum": ["Bearer"]},
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
            401 => Some("WWW-Authenticate"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_and_no_other() {
        let explained: Vec<_> = EXPLANATIONS.iter().map(|(code, _)| *code).collect();
        assert_eq!(explained, codes());
    }
}
