//! Parameters of requests, and errors.

use serde_json::{Value, json};

/// The parameters of a form or a query.
pub(super) struct Parameters(pub(super) Vec<(String, String)>);

impl Parameters {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::parameter(name, "parameter_missing", "Missing required param."))
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, ApiError> {
        let invalid = |_| ApiError::parameter(name, "parameter_invalid_integer", "Invalid integer.");
        self.required(name)?.parse().map_err(invalid)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    pub(super) fn metadata(&self) -> Value {
        let fields = self.0.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("metadata[")?.strip_suffix(']')?.to_owned(), json!(value)))
        });
        Value::Object(fields.collect())
    }

    pub(super) fn expansions(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(name, _)| name == "expand[]").map(|(_, path)| &**path)
    }
}

/// An error, and whether an idempotency key repeats it.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) error: Value,
    pub(super) remembered: bool,
}

impl ApiError {
    pub(super) fn new(status: u16, kind: &str, code: &str, message: &str) -> Self {
        Self { status, error: json!({"type": kind, "code": code, "message": message}), remembered: false }
    }

    /// A parameter that is wrong by itself: nothing was executed.
    pub(super) fn parameter(name: &str, code: &str, message: &str) -> Self {
        let mut error = Self::new(400, "invalid_request_error", code, message);
        error.error["param"] = json!(name);
        error
    }

    pub(super) fn refused(code: &str, message: &str) -> Self {
        Self { remembered: true, ..Self::new(400, "invalid_request_error", code, message) }
    }

    pub(super) fn missing(status: u16, id: &str) -> Self {
        let message = format!("No such object: '{id}'");
        Self { remembered: true, ..Self::new(status, "invalid_request_error", "resource_missing", &message) }
    }

    pub(super) fn declined(decline_code: &str) -> Self {
        let code = match decline_code {
            "expired_card" | "incorrect_cvc" | "authentication_required" => decline_code,
            _ => "card_declined",
        };
        let mut declined = Self::new(402, "card_error", code, "Your card was declined.");
        declined.error["decline_code"] = json!(decline_code);
        Self { remembered: true, ..declined }
    }

    pub(super) fn body(&self) -> Value {
        json!({"error": self.error})
    }
}
