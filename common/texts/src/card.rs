//! Cards.

/// The name of a brand, by its code in /v1.
pub fn brand_name(brand: &str) -> &str {
    match brand {
        "visa" => "Visa",
        "mastercard" => "Mastercard",
        "amex" | "american_express" => "American Express",
        "discover" => "Discover",
        "diners" | "diners_club" => "Diners Club",
        "jcb" => "JCB",
        "unionpay" => "UnionPay",
        other => other,
    }
}
