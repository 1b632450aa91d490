//! The operations of the API.

use serde_json::{Value, json};

use super::SEARCH_LAG;
use super::ledger::{Account, CardBehavior, id_in};
use super::parameters::{ApiError, Parameters};

type ApiResult = Result<Value, ApiError>;

/// Executes an operation.
pub(super) fn execute(
    account: &mut Account,
    method: &str,
    path: &[&str],
    parameters: &Parameters,
    now: i64,
) -> ApiResult {
    let call = Call { account, parameters, now };
    match (method, path) {
        ("POST", ["payment_intents"]) => call.create_intent(),
        ("POST", ["payment_intents", id, "capture"]) => call.capture(id),
        ("POST", ["payment_intents", id, "cancel"]) => call.cancel(id),
        ("POST", ["refunds"]) => call.refund(),
        ("POST", ["customers"]) => call.create_customer(),
        ("POST", ["setup_intents"]) => call.create_setup_intent(),
        ("GET", ["payment_intents", "search"]) => call.search(),
        ("GET", ["payment_intents"]) => Ok(call.list("payment_intent", |_| true)),
        ("GET", ["refunds"]) => Ok(call.list_of_intent("refund")),
        ("GET", ["disputes"]) => Ok(call.list_of_intent("dispute")),
        ("GET", ["charges"]) => Ok(call.list("charge", |_| true)),
        ("GET", ["payment_methods"]) => Ok(call.list("payment_method", |_| true)),
        ("GET", ["customers"]) => Ok(call.list("customer", |_| true)),
        ("GET", ["balance_transactions"]) => call.transactions(),
        ("GET", ["account"]) => Ok(json!({"id": call.account.id(), "object": "account"})),
        ("GET", [_, id]) => call.account.find(id).cloned().ok_or_else(|| ApiError::missing(404, id)),
        _ => Err(ApiError::new(404, "invalid_request_error", "url_invalid", "Unrecognized request URL.")),
    }
}

struct Call<'a> {
    account: &'a mut Account,
    parameters: &'a Parameters,
    now: i64,
}

impl Call<'_> {
    fn intent(&self, id: &str) -> ApiResult {
        self.account
            .find(id)
            .filter(|found| found["object"] == "payment_intent")
            .cloned()
            .ok_or_else(|| ApiError::missing(404, id))
    }

    fn create_intent(self) -> ApiResult {
        let Self { account, parameters, now } = self;
        let amount = parameters.integer("amount")?;
        let currency = parameters.required("currency")?;
        let requested = parameters.required("payment_method")?;
        let customer = parameters.get("customer");
        let usable = account.usable_method(requested);
        let (method, behavior) = usable.ok_or_else(|| ApiError::missing(400, requested))?;
        if account.object(&method)["customer"].as_str() != customer {
            return Err(ApiError::refused("payment_method_unexpected_state", "The card belongs to another customer."));
        }
        let intent = json!({
            "object": "payment_intent", "amount": amount, "amount_capturable": 0, "amount_received": 0,
            "currency": currency, "capture_method": parameters.get("capture_method").unwrap_or("automatic"),
            "confirmation_method": "automatic", "created": now, "customer": customer, "latest_charge": null,
            "last_payment_error": null, "livemode": false, "metadata": parameters.metadata(), "next_action": null,
            "payment_method": method, "payment_method_types": ["card"], "status": "requires_confirmation",
            "canceled_at": null, "cancellation_reason": null,
        });
        let id = account.add("pi", intent);
        account.use_up(&method);
        let declined = match behavior {
            CardBehavior::Approve | CardBehavior::Dispute => None,
            CardBehavior::Decline(code) | CardBehavior::DeclineCharges(code) => Some(code),
            CardBehavior::NotAttempted => {
                let failed = ApiError::new(500, "api_error", "api_error", "Something went wrong.");
                return Err(ApiError { remembered: true, ..failed });
            }
            CardBehavior::Challenge => {
                if parameters.is_true("off_session") {
                    Some("authentication_required")
                } else if parameters.is_true("error_on_requires_action") {
                    Some("authentication_not_handled")
                } else {
                    account.challenge(&id, parameters.required("return_url")?);
                    return Ok(account.object(&id).clone());
                }
            }
        };
        let Some(code) = declined else {
            account.add_charge(&id, None, now);
            if behavior == CardBehavior::Dispute && account.object(&id)["status"] == "succeeded" {
                account.open_dispute(&id, "fraudulent", now);
            }
            return Ok(account.object(&id).clone());
        };
        let mut declined = ApiError::declined(code);
        account.add_charge(&id, Some("card_declined"), now);
        account.fail(&id, &declined.error, now);
        declined.error["payment_intent"] = account.object(&id).clone();
        declined.error["payment_method"] = account.object(&method).clone();
        Err(declined)
    }

    fn capture(self, id: &str) -> ApiResult {
        let intent = self.intent(id)?;
        let Self { account, parameters, now } = self;
        let capturable = intent["amount_capturable"].as_i64().unwrap_or(0);
        let amount =
            parameters.get("amount_to_capture").map_or(Ok(capturable), |_| parameters.integer("amount_to_capture"))?;
        if intent["status"] != "requires_capture" {
            return Err(ApiError::refused("payment_intent_unexpected_state", "The payment cannot be captured."));
        }
        if !(1..=capturable).contains(&amount) {
            return Err(ApiError::refused("amount_too_large", "More than can be captured."));
        }
        if let (Value::Object(added), Some(metadata)) =
            (parameters.metadata(), account.object(id)["metadata"].as_object_mut())
        {
            metadata.extend(added);
        }
        account.captured(id, amount, now);
        Ok(account.object(id).clone())
    }

    fn cancel(self, id: &str) -> ApiResult {
        let intent = self.intent(id)?;
        if intent["status"] == "succeeded" || intent["status"] == "canceled" {
            return Err(ApiError::refused("payment_intent_unexpected_state", "The payment cannot be canceled."));
        }
        self.account.object(id)["cancellation_reason"] = json!(self.parameters.get("cancellation_reason"));
        self.account.cancel(id, self.now);
        Ok(self.account.object(id).clone())
    }

    fn refund(self) -> ApiResult {
        let amount = self.parameters.get("amount").map(|_| self.parameters.integer("amount")).transpose()?;
        let id = self.parameters.required("payment_intent")?;
        let intent = self.intent(id).map_err(|_| ApiError::missing(400, id))?;
        let Self { account, parameters, now } = self;
        if intent["status"] != "succeeded" {
            return Err(ApiError::refused("charge_not_refundable", "The payment has no captured charge."));
        }
        let charge = account.object(&id_in(&intent, "latest_charge")).clone();
        let of = |field: &str| charge[field].as_i64().unwrap_or(0);
        let left = of("amount_captured") - of("amount_refunded");
        let amount = amount.unwrap_or(left);
        if charge["disputed"] == true {
            return Err(ApiError::refused("charge_disputed", "The charge is disputed."));
        }
        if left == 0 {
            return Err(ApiError::refused("charge_already_refunded", "The charge has been refunded."));
        }
        if !(1..=left).contains(&amount) {
            return Err(ApiError::refused("amount_too_large", "More than is left of the charge."));
        }
        let refund = json!({
            "object": "refund", "amount": amount, "charge": charge["id"], "created": now, "currency": intent["currency"],
            "metadata": parameters.metadata(), "payment_intent": id, "reason": null, "status": "succeeded",
        });
        let refund = account.add("re", refund);
        let transaction = account.add_transaction("refund", &refund, -amount, &intent["currency"], now);
        account.object(&refund)["balance_transaction"] = json!(transaction);
        let charge_object = account.object(&id_in(&charge, "id"));
        charge_object["amount_refunded"] = json!(of("amount_refunded") + amount);
        charge_object["refunded"] = json!(left == amount);
        account.emit("refund.created", &refund, now);
        Ok(account.object(&refund).clone())
    }

    fn create_customer(self) -> ApiResult {
        if self.parameters.get("email").is_some_and(|email| !email.contains('@')) {
            return Err(ApiError::parameter("email", "email_invalid", "Invalid email address."));
        }
        let customer = json!({
            "object": "customer", "created": self.now, "livemode": false, "metadata": self.parameters.metadata(),
            "email": self.parameters.get("email"),
        });
        let id = self.account.add("cus", customer);
        Ok(self.account.object(&id).clone())
    }

    fn create_setup_intent(self) -> ApiResult {
        let Self { account, parameters, now } = self;
        let customer = parameters.required("customer")?;
        let requested = parameters.required("payment_method")?;
        if account.find(customer).is_none() {
            return Err(ApiError::missing(400, customer));
        }
        let (method, behavior) = account.usable_method(requested).ok_or_else(|| ApiError::missing(400, requested))?;
        if let CardBehavior::Decline(code) = behavior {
            return Err(ApiError::declined(code));
        }
        account.object(&method)["customer"] = json!(customer);
        let intent = json!({
            "object": "setup_intent", "created": now, "customer": customer, "livemode": false,
            "metadata": parameters.metadata(), "payment_method": method, "payment_method_types": ["card"],
            "status": "succeeded", "usage": "off_session", "last_setup_error": null, "next_action": null,
        });
        let id = account.add("seti", intent);
        Ok(account.object(&id).clone())
    }

    // --- lists -----------------------------------------------------------------------------------------------------------

    /// A page of objects, the newest first.
    fn list(&self, kind: &str, belongs: impl Fn(&Value) -> bool) -> Value {
        let limit = self.parameters.integer("limit").unwrap_or(10).clamp(1, 100);
        let after = self.parameters.get("starting_after");
        let mut rest = self.account.of_kind(kind).rev().filter(|object| belongs(object));
        if let Some(after) = after {
            rest.by_ref().find(|object| object["id"] == after);
        }
        let mut data: Vec<_> = rest.take(usize::try_from(limit).unwrap_or(0) + 1).cloned().collect();
        let more = data.len() > usize::try_from(limit).unwrap_or(0);
        data.truncate(usize::try_from(limit).unwrap_or(0));
        json!({"object": "list", "url": format!("/v1/{kind}s"), "has_more": more, "data": data})
    }

    fn list_of_intent(&self, kind: &str) -> Value {
        let intent = self.parameters.get("payment_intent");
        self.list(kind, |object| intent.is_none_or(|intent| object["payment_intent"] == intent))
    }

    fn transactions(&self) -> ApiResult {
        let bound = |name: &str| self.parameters.get(name).map(|_| self.parameters.integer(name)).transpose();
        let (from, to) = (bound("created[gte]")?, bound("created[lt]")?);
        Ok(self.list("balance_transaction", |object| {
            let created = object["created"].as_i64().unwrap_or(0);
            from.is_none_or(|from| created >= from) && to.is_none_or(|to| created < to)
        }))
    }

    /// Searches payments by our reference in their metadata.
    fn search(&self) -> ApiResult {
        let query = self.parameters.required("query")?;
        let asked = query.strip_prefix("metadata['").and_then(|rest| rest.strip_suffix('\'')?.split_once("']:'"));
        let (field, value) =
            asked.ok_or_else(|| ApiError::parameter("query", "parameter_invalid", "Not understood."))?;
        let indexed = self.now - i64::try_from(SEARCH_LAG.as_secs()).unwrap_or(0);
        let found = |intent: &&Value| {
            intent["metadata"][field] == value && intent["created"].as_i64().is_some_and(|at| at <= indexed)
        };
        let data: Vec<_> = self.account.of_kind("payment_intent").filter(found).cloned().collect();
        Ok(json!({"object": "search_result", "url": "/v1/payment_intents/search", "has_more": false, "data": data}))
    }
}
