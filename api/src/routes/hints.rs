//! Responses to requests for paths that this API does not have.

use crate::error::ApiError;

/// Paths of other payment APIs, and where the same is done here.
const ELSEWHERE: [(&str, &str); 16] = [
    ("/v1/payment_intents", "/v1/payments"),
    ("/v1/charges", "/v1/payments"),
    ("/v1/setup_intents", "/v1/payment_methods"),
    ("/v1/sources", "/v1/payment_methods"),
    ("/v1/cards", "/v1/payment_methods"),
    ("/v1/products", "/v1/plans"),
    ("/v1/prices", "/v1/plans"),
    ("/v1/invoiceitems", "/v1/invoices"),
    ("/v1/subscription_schedules", "/v1/recurring_invoices"),
    ("/v1/checkout/sessions", "/v1/payment_links"),
    ("/v1/webhooks", "/v1/webhook_endpoints"),
    ("/v1/balance_transactions", "/v1/payments and /v1/refunds"),
    ("/v1/account", "/v1/capabilities"),
    ("/v1/entitlements", "/v1/capabilities"),
    ("/v1/test_helpers/test_clocks", "/v1/test_clock"),
    ("/v1/tokens/card", "/v1/tokens"),
];

/// 404 for a path without a route.
pub(super) fn no_route(path: &str) -> ApiError {
    let is_below =
        |parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some((_, here)) = ELSEWHERE.iter().find(|(elsewhere, _)| is_below(elsewhere)) {
        return ApiError::no_route(format!("no such path; use {here}"));
    }
    if !is_below("/v1") {
        return ApiError::no_route("no such path; the API's paths begin with /v1");
    }
    ApiError::no_route("no such path; /docs lists all paths")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::endpoints;

    #[test]
    fn hints_lead_to_routes_and_hide_none() {
        let endpoints = endpoints();
        for (elsewhere, here) in ELSEWHERE {
            for path in here.split(" and ") {
                assert!(endpoints.iter().any(|endpoint| endpoint.path == path), "{path}");
            }
            assert!(!endpoints.iter().any(|endpoint| endpoint.path == elsewhere), "{elsewhere}");
        }
    }
}
