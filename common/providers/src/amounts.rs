//! Which amounts a provider charges: in which currencies, and of which multiples.

use std::sync::LazyLock;

use foundation::error::{Error, Result};
use foundation::money::{Currency, Money};

use crate::ProviderKind;

impl ProviderKind {
    /// Returns the providers that support only some currencies, and each pair of provider and currency, as SQL compares
    /// them.
    pub fn currency_limits() -> &'static (Vec<&'static str>, Vec<String>) {
        static LIMITS: LazyLock<(Vec<&'static str>, Vec<String>)> = LazyLock::new(|| {
            let limited = ProviderKind::ALL.iter().filter_map(|kind| Some((kind.name(), kind.currencies()?)));
            let pairs =
                limited.clone().flat_map(|(name, codes)| codes.iter().map(move |code| format!("{name} {code}")));
            (limited.clone().map(|(name, _)| name).collect(), pairs.collect())
        });
        &LIMITS
    }

    /// Returns each pair of provider and currency with a step other than 1, as SQL compares them, and those steps.
    pub fn amount_limits() -> &'static (Vec<String>, Vec<i64>) {
        static LIMITS: LazyLock<(Vec<String>, Vec<i64>)> = LazyLock::new(|| {
            let kinds = ProviderKind::ALL.iter();
            let limits = kinds.flat_map(|kind| kind.steps().iter().map(move |limit| (kind.name(), limit)));
            limits.map(|(name, (code, step))| (format!("{name} {code}"), *step)).unzip()
        });
        &LIMITS
    }

    /// Whether the provider supports this currency, at an account that may be restricted to some (`own`).
    pub fn supports(self, currency: Currency, own: Option<&[String]>) -> bool {
        let code = currency.code();
        self.currencies().is_none_or(|all| all.contains(&code))
            && own.is_none_or(|own| own.iter().any(|allowed| allowed == code))
    }

    /// The number of minor units of which every amount that the provider charges is a multiple; 1 in most currencies.
    pub fn step(self, currency: Currency) -> i64 {
        self.steps().iter().find(|(code, _)| *code == currency.code()).map_or(1, |(_, step)| *step)
    }

    /// Whether the provider can charge exactly this amount.
    pub fn charges(self, money: Money) -> bool {
        money.minor % self.step(money.currency) == 0
    }

    /// Checks that the provider can charge, capture or refund exactly this amount, of the field `param`.
    ///
    /// # Errors
    /// 422 `param`.
    pub fn require_step(self, param: &'static str, money: Money) -> Result<()> {
        if self.charges(money) {
            return Ok(());
        }
        let (step, currency) = (self.step(money.currency), money.currency);
        let message =
            format!("the account's provider charges and refunds only multiples of {step} minor units of {currency}");
        Err(Error::invalid(param, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripe_charges_no_thousandths_and_no_part_of_an_ariary() {
        for code in Currency::active_codes() {
            let currency: Currency = code.parse().expect("a currency");
            let step = if code == "MGA" {
                100
            } else if currency.exponent() == 3 {
                10
            } else {
                1
            };
            assert_eq!(ProviderKind::Stripe.step(currency), step, "{code}");
            assert_eq!((ProviderKind::Mock.step(currency), ProviderKind::CardGateway.step(currency)), (1, 1), "{code}");
        }
    }

    #[test]
    fn other_amounts_are_refused_by_field() {
        let money = |minor| Money { minor, currency: "KWD".parse().expect("a currency") };
        assert!(ProviderKind::Stripe.require_step("amount", money(1230)).is_ok());
        assert!(ProviderKind::Mock.require_step("amount", money(1234)).is_ok());
        match ProviderKind::Stripe.require_step("amountTax", money(1234)) {
            Err(Error::Invalid { param, message }) => {
                assert_eq!(param, "amountTax");
                assert!(message.contains("multiples of 10 minor units of KWD"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_name_the_provider_and_the_currency() {
        let (pairs, steps) = ProviderKind::amount_limits();
        assert_eq!(pairs.len(), steps.len());
        let of = |pair: &str| pairs.iter().position(|found| found == pair).map(|at| steps[at]);
        assert_eq!((of("stripe KWD"), of("stripe MGA"), of("mock KWD")), (Some(10), Some(100), None));
    }
}
