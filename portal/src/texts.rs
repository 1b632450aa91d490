//! The visible texts. Each goes through here, so that other languages can be added in one place.

/// A text in the language of the page, by the English one.
pub(crate) const fn text(english: &'static str) -> &'static str {
    english
}

/// The words for a status or another value of /v1.
pub(crate) fn words(value: &str) -> String {
    match value {
        // Approved by the issuer; the money arrives later.
        "pending_settlement" => "Approved".to_owned(),
        other => sentence(&other.replace(['_', '.'], " ")),
    }
}

/// The name of a field of /v1 in words: `amountCaptured` is "Amount captured".
pub(crate) fn label(field: &str) -> String {
    match field {
        "id" => "ID".to_owned(),
        "url" => "URL".to_owned(),
        "email" => text("E-mail").to_owned(),
        "externalId" => text("Own reference").to_owned(),
        "expMonth" => text("Expiry month").to_owned(),
        "expYear" => text("Expiry year").to_owned(),
        "last4" => text("Last four digits").to_owned(),
        "isDefault" => text("Default").to_owned(),
        "durationMs" => text("Duration (ms)").to_owned(),
        other => {
            let name = other.strip_suffix("Id").or_else(|| other.strip_suffix("At")).unwrap_or(other);
            let mut spaced = String::new();
            for letter in name.chars() {
                if letter.is_uppercase() {
                    spaced.push(' ');
                }
                spaced.extend(letter.to_lowercase());
            }
            sentence(&spaced)
        }
    }
}

fn sentence(lower: &str) -> String {
    let mut letters = lower.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_states_are_shown_in_words() {
        for (field, words) in [
            ("amountCaptured", "Amount captured"),
            ("customerId", "Customer"),
            ("createdAt", "Created"),
            ("last4", "Last four digits"),
            ("externalId", "Own reference"),
        ] {
            assert_eq!(label(field), words);
        }
        assert_eq!(words("pending_settlement"), "Approved");
        assert_eq!(words("partially_refunded"), "Partially refunded");
        assert_eq!(words("invoice.payment_failed"), "Invoice payment failed");
    }
}
