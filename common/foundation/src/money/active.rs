//! The currencies in use.
//!
//! We maintain the list, because the crate's data does not say as of which day it is valid and regards the bolívar as
//! superseded.

/// The codes of ISO 4217 list one (six-group.com) as of 1 January 2026 in alphabetical order, without funds, metals,
/// units of account, test codes and "no currency". A code that is withdrawn leaves the list, and stays readable.
pub(super) const ACTIVE: [&str; 155] = [
    "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BHD", "BIF", "BMD", "BND",
    "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CLP", "CNY", "COP", "CRC", "CUP", "CVE",
    "CZK", "DJF", "DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD",
    "GNF", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY",
    "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "LYD", "MAD",
    "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO",
    "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF",
    "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB",
    "TJS", "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VED", "VES", "VND",
    "VUV", "WST", "XAF", "XCD", "XCG", "XOF", "XPF", "YER", "ZAR", "ZMW", "ZWG",
];

#[cfg(test)]
mod tests {
    use super::*;
    use iso_currency::Currency;

    #[test]
    fn the_list_is_sorted_and_differs_from_the_crate_only_in_the_bolivar() {
        assert!(ACTIVE.is_sorted_by(|one, next| one < next));
        let letters = || 'A'..='Z';
        let pairs = letters().flat_map(|a| letters().map(move |b| [a, b]));
        for code in pairs.flat_map(|[a, b]| letters().map(move |c| String::from_iter([a, b, c]))) {
            let in_use = Currency::from_code(&code)
                .is_some_and(|known| !known.is_fund() && !known.is_special() && known.is_superseded().is_none());
            assert_eq!(ACTIVE.contains(&code.as_str()), in_use || code == "VES", "{code}");
        }
        assert!(ACTIVE.iter().all(|code| Currency::from_code(code).is_some_and(|known| known.exponent().is_some())));
    }
}
