//! The accounts and their objects, as JSON.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::{AVAILABLE_AFTER, KEYS_ARE_KEPT, StripeKeys, Time, events, system_ms};

/// The time after which an authorization that was not captured ends.
const AUTHORIZATION_LIFETIME: i64 = 7 * 24 * 3600;

/// What a card does when it is saved or charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardBehavior {
    Approve,
    /// Declined with this `decline_code`.
    Decline(&'static str),
    /// Can be saved, and is declined with this `decline_code` when it is charged.
    DeclineCharges(&'static str),
    /// Approved, and disputed as soon as it is captured.
    Dispute,
    /// The issuer requires a challenge of the cardholder for each charge.
    Challenge,
    /// Stripe fails after it has created a payment, and before it asks the issuer.
    NotAttempted,
}

impl CardBehavior {
    /// The behavior of one of Stripe's test cards (docs.stripe.com/testing).
    fn of_test_card(id: &str) -> Option<Self> {
        Some(match id {
            "pm_card_visa" | "pm_card_mastercard" => Self::Approve,
            "pm_card_chargeDeclined" => Self::Decline("generic_decline"),
            "pm_card_chargeDeclinedInsufficientFunds" => Self::Decline("insufficient_funds"),
            "pm_card_chargeDeclinedLostCard" => Self::Decline("lost_card"),
            "pm_card_chargeDeclinedStolenCard" => Self::Decline("stolen_card"),
            "pm_card_chargeDeclinedExpiredCard" => Self::Decline("expired_card"),
            "pm_card_chargeDeclinedIncorrectCvc" => Self::Decline("incorrect_cvc"),
            "pm_card_chargeCustomerFail" => Self::DeclineCharges("generic_decline"),
            "pm_card_createDispute" => Self::Dispute,
            "pm_card_authenticationRequired" => Self::Challenge,
            _ => return None,
        })
    }

    /// The behavior of the card with this number, which Stripe's field would take.
    pub(super) fn of_number(number: &str) -> Option<Self> {
        let digits: String = number.chars().filter(char::is_ascii_digit).collect();
        Some(match &*digits {
            "4242424242424242" => Self::Approve,
            "4000000000000002" => Self::Decline("generic_decline"),
            "4000000000009995" => Self::Decline("insufficient_funds"),
            "4000000000000341" => Self::DeclineCharges("generic_decline"),
            "4000000000000259" => Self::Dispute,
            "4000002500003155" => Self::Challenge,
            _ => return None,
        })
    }

    pub(super) const fn last4(self) -> &'static str {
        match self {
            Self::Approve => "4242",
            Self::Decline(_) => "0002",
            Self::DeclineCharges(_) => "0341",
            Self::Dispute => "0259",
            Self::Challenge => "3184",
            Self::NotAttempted => "0119",
        }
    }
}

/// A response that is repeated for its idempotency key.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    /// The operation and its parameters.
    pub(super) request: String,
    pub(super) response: (u16, Value),
    at: i64,
}

#[derive(Default)]
pub(super) struct Ledger {
    pub(super) time: Time,
    accounts: HashMap<String, Account>,
}

impl Ledger {
    pub(super) fn open_account(&mut self, url: &str) -> StripeKeys {
        let tag = format!("D{}", self.accounts.len() + 1);
        let keys = StripeKeys {
            secret_key: format!("rk_test_secret{tag}"),
            publishable_key: format!("pk_test_public{tag}"),
            webhook_secret: format!("whsec_events{tag}"),
        };
        self.accounts.insert(keys.secret_key.clone(), Account::new(url.to_owned(), tag, keys.publishable_key.clone()));
        keys
    }

    /// The account of a secret key, which must exist.
    pub(super) fn account(&mut self, secret_key: &str) -> &mut Account {
        self.find(secret_key).unwrap_or_else(|| panic!("the double has no account with this key"))
    }

    pub(super) fn find(&mut self, secret_key: &str) -> Option<&mut Account> {
        self.accounts.get_mut(secret_key)
    }

    /// The account of a publishable key, or with an object of this id.
    pub(super) fn find_by(&mut self, key_or_object: &str) -> Option<&mut Account> {
        let known = |account: &&mut Account| {
            account.publishable_key == key_or_object || account.index.contains_key(key_or_object)
        };
        self.accounts.values_mut().find(known)
    }

    pub(super) fn forget_keys(&mut self) {
        self.accounts.values_mut().for_each(|account| account.remembered.clear());
    }
}

pub(super) struct Account {
    /// The base URL of the double.
    pub(super) url: String,
    tag: String,
    publishable_key: String,
    /// The permissions that its key lacks.
    pub(super) forbidden: HashSet<&'static str>,
    pub(super) remembered: HashMap<String, Remembered>,
    /// In the order of their creation.
    objects: Vec<Value>,
    /// When each was added, in milliseconds since 1970: Stripe's own times are whole seconds.
    added: Vec<i64>,
    index: HashMap<String, usize>,
    behaviors: HashMap<String, CardBehavior>,
    /// Cards that were charged without being saved, which cannot be used again.
    used: HashSet<String>,
    /// When money becomes available or an authorization ends, and the id of that object.
    due: BTreeSet<(i64, String)>,
    pub(super) events: Vec<Value>,
    /// The time from a capture until its money is available.
    pub(super) available_after: Duration,
}

impl Account {
    fn new(url: String, tag: String, publishable_key: String) -> Self {
        Self {
            url,
            tag,
            publishable_key,
            forbidden: HashSet::new(),
            remembered: HashMap::new(),
            objects: Vec::new(),
            added: Vec::new(),
            index: HashMap::new(),
            behaviors: HashMap::new(),
            used: HashSet::new(),
            due: BTreeSet::new(),
            events: Vec::new(),
            available_after: AVAILABLE_AFTER,
        }
    }

    pub(super) fn id(&self) -> String {
        format!("acct_{}", self.tag)
    }

    // --- objects ---------------------------------------------------------------------------------------------------------

    /// Adds an object under a new id, which it returns.
    pub(super) fn add(&mut self, prefix: &str, mut object: Value) -> String {
        let id = format!("{prefix}_{}{:08}", self.tag, self.objects.len());
        object["id"] = json!(id);
        self.index.insert(id.clone(), self.objects.len());
        self.objects.push(object);
        self.added.push(system_ms());
        id
    }

    pub(super) fn added(&self, id: &str) -> Option<i64> {
        Some(self.added[*self.index.get(id)?])
    }

    pub(super) fn find(&self, id: &str) -> Option<&Value> {
        Some(&self.objects[*self.index.get(id)?])
    }

    /// An object that must exist.
    pub(super) fn object(&mut self, id: &str) -> &mut Value {
        let index = *self.index.get(id).unwrap_or_else(|| panic!("no object {id}"));
        &mut self.objects[index]
    }

    pub(super) fn of_kind(&self, kind: &str) -> impl DoubleEndedIterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["object"] == kind)
    }

    /// Replaces ids by objects along a path such as `data.source.payment_intent`.
    pub(super) fn expand(&self, value: &mut Value, path: &str) {
        let (field, rest) = path.split_once('.').unwrap_or((path, ""));
        let inner = &mut value[field];
        if let Some(object) = inner.as_str().and_then(|id| self.find(id)) {
            *inner = object.clone();
        }
        if rest.is_empty() {
            return;
        }
        if let Value::Array(list) = inner {
            list.iter_mut().for_each(|item| self.expand(item, rest));
        } else if inner.is_object() {
            self.expand(inner, rest);
        }
    }

    /// Applies what time brings: money becomes available, authorizations end, idempotency keys are forgotten.
    pub(super) fn pass_time(&mut self, now: i64) {
        while let Some((at, id)) = self.due.first().cloned()
            && at <= now
        {
            self.due.pop_first();
            let object = self.object(&id);
            if object["object"] == "balance_transaction" {
                object["status"] = json!("available");
            } else if object["status"] == "requires_capture" {
                object["cancellation_reason"] = json!("expired");
                self.cancel(&id, at);
            }
        }
        let kept = i64::try_from(KEYS_ARE_KEPT.as_secs()).unwrap_or(i64::MAX);
        self.remembered.retain(|_, remembered| remembered.at + kept > now);
    }

    pub(super) fn remember(&mut self, key: &str, request: String, response: (u16, Value), now: i64) {
        self.remembered.insert(key.to_owned(), Remembered { request, response, at: now });
    }

    pub(super) fn emit(&mut self, kind: &str, id: &str, now: i64) {
        let object = self.object(id).clone();
        let event = events::event(&format!("evt_{}{:08}", self.tag, self.objects.len()), kind, &object, now);
        let id = self.add("evt", event);
        let event = self.object(&id).clone();
        self.events.push(event);
    }

    // --- cards -----------------------------------------------------------------------------------------------------------

    pub(super) fn new_method(&mut self, behavior: CardBehavior) -> String {
        let card = json!({"brand": "visa", "last4": behavior.last4(), "exp_month": 12, "exp_year": 2034});
        let method = json!({
            "object": "payment_method", "type": "card", "card": card, "customer": null, "livemode": false,
            "metadata": {}, "created": 0,
        });
        let id = self.add("pm", method);
        self.behaviors.insert(id.clone(), behavior);
        id
    }

    /// The id of a card and its behavior: one of the account, or a new one for a test card. `None` if it cannot be used.
    pub(super) fn usable_method(&mut self, id: &str) -> Option<(String, CardBehavior)> {
        if let Some(behavior) = CardBehavior::of_test_card(id) {
            return Some((self.new_method(behavior), behavior));
        }
        let behavior = *self.behaviors.get(id)?;
        (!self.used.contains(id)).then(|| (id.to_owned(), behavior))
    }

    /// A card that was charged without a customer cannot be used again.
    pub(super) fn use_up(&mut self, method: &str) {
        if self.object(method)["customer"].is_null() {
            self.used.insert(method.to_owned());
        }
    }

    // --- payments --------------------------------------------------------------------------------------------------------

    /// Adds the charge of an approved or declined attempt.
    pub(super) fn add_charge(&mut self, intent: &str, failure: Option<&str>, now: i64) {
        let intent_object = self.object(intent).clone();
        let method = intent_object["payment_method"].as_str().unwrap_or_default().to_owned();
        let captured = failure.is_none() && intent_object["capture_method"] != "manual";
        let mut card = self.object(&method)["card"].clone();
        card["capture_before"] =
            if captured || failure.is_some() { Value::Null } else { json!(now + AUTHORIZATION_LIFETIME) };
        if card["capture_before"].is_null() {
            card.as_object_mut().expect("an object").remove("capture_before");
        }
        let amount = &intent_object["amount"];
        let charge = json!({
            "object": "charge", "amount": amount, "amount_captured": if captured { amount.clone() } else { json!(0) },
            "amount_refunded": 0, "captured": captured, "created": now, "currency": intent_object["currency"],
            "disputed": false, "livemode": false, "metadata": intent_object["metadata"], "paid": failure.is_none(),
            "refunded": false, "payment_intent": intent, "payment_method": method, "failure_code": failure,
            "status": if failure.is_none() { "succeeded" } else { "failed" }, "balance_transaction": null,
            "payment_method_details": {"type": "card", "card": card},
        });
        let charge = self.add("ch", charge);
        self.object(intent)["latest_charge"] = json!(charge);
        if failure.is_some() {
            return;
        }
        if captured {
            self.captured(intent, amount.as_i64().unwrap_or(0), now);
        } else {
            let object = self.object(intent);
            object["status"] = json!("requires_capture");
            object["amount_capturable"] = amount.clone();
            self.due.insert((now + AUTHORIZATION_LIFETIME, intent.to_owned()));
            self.emit("payment_intent.amount_capturable_updated", intent, now);
        }
    }

    /// Money of a payment was captured.
    pub(super) fn captured(&mut self, intent: &str, amount: i64, now: i64) {
        let object = self.object(intent);
        object["status"] = json!("succeeded");
        object["amount_received"] = json!(amount);
        object["amount_capturable"] = json!(0);
        let (charge, currency) = (id_in(object, "latest_charge"), object["currency"].clone());
        let transaction = self.add_transaction("charge", &charge, amount, &currency, now);
        let object = self.object(&charge);
        object["captured"] = json!(true);
        object["amount_captured"] = json!(amount);
        object["balance_transaction"] = json!(transaction);
        self.emit("payment_intent.succeeded", intent, now);
    }

    pub(super) fn cancel(&mut self, intent: &str, now: i64) {
        let object = self.object(intent);
        object["status"] = json!("canceled");
        object["canceled_at"] = json!(now);
        object["amount_capturable"] = json!(0);
        object["next_action"] = Value::Null;
        self.emit("payment_intent.canceled", intent, now);
    }

    /// Adds a movement of money and returns its id.
    pub(super) fn add_transaction(
        &mut self,
        kind: &str,
        source: &str,
        amount: i64,
        currency: &Value,
        now: i64,
    ) -> String {
        let available = now + i64::try_from(self.available_after.as_secs()).unwrap_or(i64::MAX);
        let transaction = json!({
            "object": "balance_transaction", "amount": amount, "net": amount, "fee": 0, "fee_details": [],
            "available_on": available, "created": now, "currency": currency, "source": source, "status": "pending",
            "type": kind, "reporting_category": kind, "description": null, "exchange_rate": null,
        });
        let id = self.add("txn", transaction);
        self.due.insert((available, id.clone()));
        id
    }

    /// Books all movements of money so much earlier.
    pub(super) fn book_earlier(&mut self, seconds: i64) {
        for object in self.objects.iter_mut().filter(|object| object["object"] == "balance_transaction") {
            let created = object["created"].as_i64().unwrap_or(0);
            object["created"] = json!(created.saturating_sub(seconds));
        }
    }

    /// An attempt of a payment failed with this error.
    pub(super) fn fail(&mut self, intent: &str, error: &Value, now: i64) {
        let object = self.object(intent);
        object["status"] = json!("requires_payment_method");
        object["last_payment_error"] = error.clone();
        object["next_action"] = Value::Null;
        self.emit("payment_intent.payment_failed", intent, now);
    }

    /// The cardholder passed or failed the challenge.
    pub(super) fn answer_challenge(&mut self, intent: &str, passes: bool, now: i64) {
        let object = self.object(intent);
        if object["status"] != "requires_action" {
            return;
        }
        object["next_action"] = Value::Null;
        if passes {
            self.add_charge(intent, None, now);
        } else {
            let error = json!({
                "type": "invalid_request_error", "code": "payment_intent_authentication_failure",
                "message": "The cardholder failed the challenge.",
            });
            self.fail(intent, &error, now);
        }
    }

    pub(super) fn fail_refund(&mut self, refund: &str, now: i64) {
        let object = self.object(refund);
        object["status"] = json!("failed");
        object["failure_reason"] = json!("expired_or_canceled_card");
        let (amount, currency) = (object["amount"].as_i64().unwrap_or(0), object["currency"].clone());
        let transaction = self.add_transaction("refund_failure", refund, amount, &currency, now);
        self.object(refund)["failure_balance_transaction"] = json!(transaction);
        self.emit("refund.failed", refund, now);
    }

    // --- disputes --------------------------------------------------------------------------------------------------------

    pub(super) fn open_dispute(&mut self, intent: &str, reason: &str, now: i64) -> String {
        let intent_object = self.object(intent).clone();
        let (charge, amount) = (id_in(&intent_object, "latest_charge"), &intent_object["amount_received"]);
        let dispute = json!({
            "object": "dispute", "amount": amount, "charge": charge, "created": now,
            "currency": intent_object["currency"], "payment_intent": intent, "reason": reason,
            "status": "needs_response", "livemode": false, "metadata": {}, "is_charge_refundable": false,
            "evidence_details": {
                "due_by": now + 7 * 24 * 3600, "has_evidence": false, "past_due": false, "submission_count": 0,
            },
            "balance_transactions": [],
        });
        let id = self.add("du", dispute);
        self.object(&charge)["disputed"] = json!(true);
        self.emit("charge.dispute.created", &id, now);
        self.move_disputed(&id, -amount.as_i64().unwrap_or(0), now);
        self.emit("charge.dispute.funds_withdrawn", &id, now);
        id
    }

    pub(super) fn decide_dispute(&mut self, dispute: &str, won: bool, now: i64) {
        let object = self.object(dispute);
        object["status"] = json!(if won { "won" } else { "lost" });
        let amount = object["amount"].as_i64().unwrap_or(0);
        if won {
            self.move_disputed(dispute, amount, now);
            self.emit("charge.dispute.funds_reinstated", dispute, now);
        }
        self.emit("charge.dispute.closed", dispute, now);
    }

    fn move_disputed(&mut self, dispute: &str, amount: i64, now: i64) {
        let currency = self.object(dispute)["currency"].clone();
        let transaction = self.add_transaction("adjustment", dispute, amount, &currency, now);
        let transaction = self.object(&transaction).clone();
        let list = self.object(dispute)["balance_transactions"].as_array_mut().expect("a list");
        list.push(transaction);
    }
}

/// The id in a field, which must be one.
pub(super) fn id_in(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_else(|| panic!("no id in {field} of {object}")).to_owned()
}
