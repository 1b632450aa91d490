//! Cardholders and issuers at Stripe: charges by some cards are challenged or disputed, and the disputes decided.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::card_field::{CHALLENGED, DISPUTED_TWICE};
use crate::random::Random;
use crate::shop::Shop;

/// Their random numbers are a stream of their own.
const STREAM: u64 = 3;

/// What cardholders and issuers do with the charges of a shop. The mock disputes charges by itself, as they settle.
#[derive(Clone)]
pub struct Issuers(Arc<Mutex<State>>);

struct State {
    shop: Shop,
    random: Random,
    /// By charge.
    cases: BTreeMap<String, Case>,
    /// How each challenge ends, by charge.
    challenges: BTreeMap<String, End>,
}

/// How a challenge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    /// Nobody answers it. Until it expires it is looked up every few seconds.
    Abandoned,
}

impl End {
    fn random(random: &mut Random) -> Self {
        match random.below(16) {
            0 => Self::Abandoned,
            1..6 => Self::Failed,
            _ => Self::Passed,
        }
    }
}

/// When they act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// While there are faults: on some charges, now and then.
    Faults,
    /// Once, as the faults end: all that is left to do with these charges. While a dispute is open, an advance of the test
    /// clock asks about it for every hour.
    Healed,
    /// As all money has settled: on every charge.
    Settled,
}

/// What is done with a charge.
struct Case {
    /// Only once all money has settled.
    is_late: bool,
    /// Stripe's id of the dispute, once there is one.
    dispute: Option<String>,
    /// The decisions that are left, the last one first: whether the merchant wins.
    decisions: Vec<bool>,
}

impl Case {
    fn new(token: &str, is_late: bool) -> Self {
        let decisions = match token {
            "tok_disputed_won" => vec![true],
            DISPUTED_TWICE => vec![true, false],
            _ => vec![false],
        };
        Self { is_late, dispute: None, decisions }
    }
}

impl Issuers {
    /// Those of a shop.
    pub fn new(shop: Shop, seed: u64) -> Self {
        let random = Random::stream(seed, STREAM);
        Self(Arc::new(Mutex::new(State { shop, random, cases: BTreeMap::new(), challenges: BTreeMap::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is something left to dispute or to decide.
    pub fn have_work(&self) -> bool {
        let state = self.state();
        let is_open = |(id, _): &(String, String)| {
            state.cases.get(id).is_none_or(|case| case.dispute.is_none() || !case.decisions.is_empty())
        };
        state.disputable().iter().any(is_open)
    }

    /// Answers challenges, and opens and decides disputes. What Stripe would report of them when everything has settled is
    /// lost at times.
    pub fn act(&self, phase: Phase) {
        let mut state = self.state();
        let Some((stripe, keys)) = state.shop.stripe.clone() else { return };
        for charge in state.challenged() {
            let State { random, challenges, .. } = &mut *state;
            let end = *challenges.entry(charge.clone()).or_insert_with(|| End::random(random));
            if end != End::Abandoned && (phase != Phase::Faults || random.one_in(2)) {
                stripe.answer_challenge(&keys, &charge, end == End::Passed);
            }
        }
        for (charge, token) in state.disputable() {
            let State { random, cases, .. } = &mut *state;
            let case = cases.entry(charge.clone()).or_insert_with(|| Case::new(&token, random.one_in(2)));
            if case.is_late && phase != Phase::Settled {
                continue;
            }
            let mut must_act = phase != Phase::Faults;
            while must_act || random.one_in(2) {
                must_act = phase == Phase::Healed;
                match &case.dispute {
                    None => case.dispute = Some(stripe.dispute(&keys, &charge, "fraudulent")),
                    Some(dispute) => match case.decisions.pop() {
                        Some(is_won) => stripe.decide(&keys, dispute, is_won),
                        None => break,
                    },
                }
            }
        }
        if phase == Phase::Settled && state.random.one_in(2) {
            drop(stripe.take_events(&keys));
        }
    }
}

impl State {
    /// The charges that wait for an answer of the cardholder.
    fn challenged(&self) -> Vec<String> {
        let Some((stripe, keys)) = self.shop.stripe.as_ref().filter(|_| self.shop.has_acting()) else {
            return Vec::new();
        };
        let intents = stripe.objects(keys, "payment_intent").into_iter();
        let challenged = intents.filter(|intent| intent["status"] == "requires_action");
        challenged.filter_map(|intent| Some(intent["id"].as_str()?.to_owned())).collect()
    }

    /// The charges that are or can be disputed, each with the history's token of its card: captured, and not returned
    /// before.
    fn disputable(&self) -> Vec<(String, String)> {
        let Some((stripe, keys)) = self.shop.stripe.as_ref().filter(|_| self.shop.has_acting()) else {
            return Vec::new();
        };
        let charges = stripe.objects(keys, "charge");
        let disputable = |charge: &Value| {
            let token = self.shop.acting(charge["payment_method"].as_str()?).filter(|token| token != CHALLENGED)?;
            let [captured, refunded] = ["amount_captured", "amount_refunded"].map(|field| charge[field].as_i64());
            let is_left = charge["status"] == "succeeded" && captured > refunded;
            let intent = charge["payment_intent"].as_str()?.to_owned();
            (is_left || self.cases.get(&intent).is_some_and(|case| case.dispute.is_some())).then_some((intent, token))
        };
        charges.iter().filter_map(disputable).collect()
    }
}
