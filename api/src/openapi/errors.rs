//! The error responses, each once under `components.responses`, and the headers of every response.

use serde_json::{Map, Value, json};

use crate::endpoint::Endpoint;
use crate::guard::Access;

/// An error response in the document.
struct ErrorDoc {
    name: &'static str,
    status: u16,
    codes: &'static [&'static str],
    /// Fields of `error` that are always present.
    required: &'static [&'static str],
    /// Whether the rate limit headers are present: not if the key was not accepted.
    has_rate_limit: bool,
    description: &'static str,
}

const ERRORS: &[ErrorDoc] = &[
    ErrorDoc {
        name: "BadRequest",
        status: 400,
        codes: &["invalid_request"],
        required: &["param"],
        has_rate_limit: false,
        description: "More than one `Host` header.",
    },
    ErrorDoc {
        name: "Unauthenticated",
        status: 401,
        codes: &["authentication_failed"],
        required: &[],
        has_rate_limit: false,
        description: "The key is missing, malformed, unknown or revoked, or the signature of a live request is missing \
                      or invalid.",
    },
    ErrorDoc {
        name: "OriginRefused",
        status: 401,
        codes: &["authentication_failed", "no_origin_header"],
        required: &[],
        has_rate_limit: false,
        description: "The `Origin` header is missing or not on the allow-list, or the key is not valid.",
    },
    ErrorDoc {
        name: "WrongKindOfKey",
        status: 403,
        codes: &["permission_denied"],
        required: &[],
        has_rate_limit: true,
        description: "A valid key of the wrong kind.",
    },
    ErrorDoc {
        name: "Forbidden",
        status: 403,
        codes: &["permission_denied", "capability_not_enabled"],
        required: &[],
        has_rate_limit: true,
        description: "A valid key of the wrong kind or mode, or without the entitlement in `capability`.",
    },
    ErrorDoc {
        name: "NotFound",
        status: 404,
        codes: &["not_found"],
        required: &[],
        has_rate_limit: true,
        description: "The account has no such object.",
    },
    ErrorDoc {
        name: "MethodNotAllowed",
        status: 405,
        codes: &["invalid_request"],
        required: &[],
        has_rate_limit: false,
        description: "The path does not support this method; `Allow` lists those that it does. Returned even without a \
                      key.",
    },
    ErrorDoc {
        name: "Timeout",
        status: 408,
        codes: &["invalid_request"],
        required: &[],
        has_rate_limit: false,
        description: "The body did not arrive in time. Nothing was done, and it is safe to retry.",
    },
    ErrorDoc {
        name: "Conflict",
        status: 409,
        codes: &["conflict"],
        required: &[],
        has_rate_limit: true,
        description: "The state of an object does not allow this.",
    },
    ErrorDoc {
        name: "TooLarge",
        status: 413,
        codes: &["invalid_request"],
        required: &[],
        has_rate_limit: false,
        description: "The body is larger than 65,536 bytes.",
    },
    ErrorDoc {
        name: "Invalid",
        status: 422,
        codes: &["invalid_request"],
        required: &[],
        has_rate_limit: true,
        description: "A field is missing or invalid: `param` names it. Without `param`, the body or the query string \
                      as a whole is invalid.",
    },
    ErrorDoc {
        name: "TooManyRequests",
        status: 429,
        codes: &["rate_limited"],
        required: &[],
        has_rate_limit: true,
        description: "Too many requests of the key or the client address: `RateLimit-Policy` says which. Retry after \
                      `Retry-After` seconds.",
    },
    ErrorDoc {
        name: "Fault",
        status: 500,
        codes: &["api_error"],
        required: &[],
        has_rate_limit: false,
        description: "An internal error. Nothing was done, and it is safe to retry.",
    },
    ErrorDoc {
        name: "Unavailable",
        status: 503,
        codes: &["api_error"],
        required: &[],
        has_rate_limit: false,
        description: "This server cannot accept writes at the moment. Nothing was done, and it is safe to retry.",
    },
    ErrorDoc {
        name: "NotSupported",
        status: 501,
        codes: &["capability_not_supported"],
        required: &["capability"],
        has_rate_limit: true,
        description: "The account's provider does not support the operation in `capability`. Do not retry.",
    },
];

/// Every code of an error.
pub(super) fn codes() -> Vec<&'static str> {
    let mut codes: Vec<_> = ERRORS.iter().flat_map(|error| error.codes).copied().collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// What each code means and how to handle it.
const EXPLANATIONS: &[(&str, &str)] = &[
    (
        "api_error",
        "An internal error, or this server cannot accept writes at the moment. Nothing was done: retry the same \
         request.",
    ),
    (
        "authentication_failed",
        "The key is missing, malformed, unknown, revoked or sent twice; the signature of a live request is missing or \
         invalid; or the page's origin is not allowed. The message says which, but not why a key is not valid.",
    ),
    (
        "capability_not_enabled",
        "The key lacks the entitlement in `capability`, or the account's settings forbid it. Contact us to enable it.",
    ),
    (
        "capability_not_supported",
        "The account's provider does not support the operation in `capability`. Do not retry.",
    ),
    ("conflict", "The state of the object does not allow this. Retrieve the object before you decide what to do."),
    (
        "invalid_request",
        "A field, a query parameter or a header is missing, invalid, unknown or sent twice: `param` names it. Without \
         `param`, the body as a whole is not a JSON object. Correct the request; a retry fails the same way.",
    ),
    ("no_origin_header", "A checkout session can only be started by a web page, for which the browser sends `Origin`."),
    (
        "not_found",
        "No such path, or no such object on this account. Objects of other accounts and of the other mode are not \
         found either.",
    ),
    ("permission_denied", "A valid key of the wrong kind or mode for this operation."),
    ("rate_limited", "Too many requests. Nothing was done: retry after the time in `Retry-After`."),
];

/// Each code with its statuses and its explanation.
pub(super) fn explained() -> impl Iterator<Item = (&'static str, Vec<u16>, &'static str)> {
    codes().into_iter().map(|code| {
        let with_code = ERRORS.iter().filter(|error| error.codes.contains(&code));
        let mut statuses: Vec<_> = with_code.map(|error| error.status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        let text = EXPLANATIONS.iter().find(|(known, _)| *known == code).map_or("", |(_, text)| text);
        (code, statuses, text)
    })
}

/// The headers of a response, by reference.
pub(super) fn headers(has_rate_limit: bool) -> Map<String, Value> {
    let always = ["Request-Id", "Api-Version", "Cache-Control", "X-Content-Type-Options"];
    let names = always.iter().chain(["RateLimit", "RateLimit-Policy"].iter().filter(|_| has_rate_limit));
    names.map(|name| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))).collect()
}

/// `components.headers`.
pub(super) fn header_components() -> Value {
    json!({
        "Api-Version": {
            "description": "The version of this API, as in this document's `info`.",
            "required": true,
            "schema": {"type": "string"},
        },
        "Request-Id": {
            "description": "The id of the request. Include it when you contact support.",
            "required": true,
            "schema": {"type": "string", "pattern": "^req_[0-9A-HJKMNP-TV-Z]{26}$"},
        },
        "Cache-Control": {
            "description": "Responses must not be cached.",
            "required": true,
            "schema": {"type": "string", "enum": ["no-store"]},
        },
        "X-Content-Type-Options": {
            "description": "Browsers must not guess another content type.",
            "required": true,
            "schema": {"type": "string", "enum": ["nosniff"]},
        },
        "WWW-Authenticate": {
            "description": "The authentication scheme of keys.",
            "required": true,
            "schema": {"type": "string", "enum": ["Bearer"]},
        },
        "RateLimit": {
            "description": "Requests left, and seconds until the bucket is full or, if it is empty, allows another \
                            request.",
            "required": true,
            "schema": {"type": "string", "pattern": "^\"(key|address)\";r=[0-9]+;t=[0-9]+$"},
        },
        "RateLimit-Policy": {
            "description": "The size of the bucket in requests, and the seconds in which it refills.",
            "required": true,
            "schema": {"type": "string", "pattern": "^\"(key|address)\";q=[0-9]+;w=[0-9]+$"},
        },
        "Retry-After": {
            "description": "Seconds to wait before a retry.",
            "required": true,
            "schema": {"type": "integer", "minimum": 1},
        },
        "Allow": {
            "description": "The methods that this path supports.",
            "required": true,
            "schema": {"type": "string"},
        },
    })
}

/// `components.responses`.
pub(super) fn components() -> Map<String, Value> {
    ERRORS.iter().map(|error| (error.name.to_owned(), error.response())).collect()
}

impl ErrorDoc {
    fn response(&self) -> Value {
        let mut headers = headers(self.has_rate_limit);
        let extra = match self.status {
            401 => Some("WWW-Authenticate"),
            405 => Some("Allow"),
            429 | 503 => Some("Retry-After"),
            _ => None,
        };
        if let Some(extra) = extra {
            headers.insert(extra.to_owned(), json!({"$ref": format!("#/components/headers/{extra}")}));
        }
        let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}});
        json!({
            "description": self.description,
            "headers": headers,
            "content": content,
            "x-error-codes": self.codes,
            "x-error-fields": self.required,
        })
    }
}

/// The error responses of one operation, by status.
pub(super) fn of(endpoint: &Endpoint) -> Map<String, Value> {
    let by_access = match endpoint.access {
        Access::AnySecret => vec!["Unauthenticated", "WrongKindOfKey"],
        Access::Browser(providers::capabilities::Permission::CheckoutSessionsCreate) => {
            vec!["OriginRefused", "Forbidden", "NotSupported"]
        }
        Access::Secret(_) | Access::TestSecret(_) | Access::Browser(_) => {
            vec!["Unauthenticated", "Forbidden", "NotSupported"]
        }
    };
    let applies = |error: &&ErrorDoc| {
        by_access.contains(&error.name)
            || matches!(error.name, "BadRequest" | "TooLarge" | "TooManyRequests" | "Fault")
            || (matches!(error.name, "Timeout" | "Unavailable") && endpoint.method != "get")
            || endpoint.doc.errors.contains(&error.status)
    };
    let reference = |error: &ErrorDoc| json!({"$ref": format!("#/components/responses/{}", error.name)});
    ERRORS.iter().filter(applies).map(|error| (error.status.to_string(), reference(error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_known_codes_are_explained() {
        let explained: Vec<_> = EXPLANATIONS.iter().map(|(code, _)| *code).collect();
        assert_eq!(explained, codes());
    }
}
