//! What a receipt says. Of the card it knows brand and last four digits, and so it can tell no more.

use super::store::Facts;
use crate::amount::Amount;
use crate::id::TransactionId;
use crate::mail::one_line;
use crate::report::shown;
use crate::transactions::Kind;

/// Characters of a name or a reference at most.
const MAX: usize = 255;

/// Subject and text.
pub(super) fn compose(id: TransactionId, facts: &Facts) -> (String, String) {
    let merchant = one_line(&facts.merchant, MAX);
    let money = |hundredths| format!("{} {}", Amount::hundredths(hundredths), facts.currency);
    let subject = format!("{} {}, {merchant}", heading(facts.kind), money(facts.amount));
    let zone = facts.time_zone.name();
    let last_four = &facts.masked[facts.masked.len().saturating_sub(4)..];
    let mut lines = vec![(heading(facts.kind), money(facts.amount - facts.fee))];
    if facts.fee > 0 {
        lines.push(("Fee", money(facts.fee)));
        lines.push(("Total", money(facts.amount)));
    }
    lines.push(("Card", format!("{} ending in {last_four}", facts.brand)));
    lines.push(("Time", format!("{} ({zone})", shown(facts.created_at, zone))));
    lines.push(("Transaction", id.to_string()));
    if let Some(reference) = &facts.reference_id {
        lines.push(("Reference", one_line(reference, MAX)));
    }
    let lines: String = lines.iter().map(|(name, value)| format!("{name:<16}{value}\r\n")).collect();
    (subject, format!("{merchant}\r\n\r\n{lines}"))
}

const fn heading(kind: Kind) -> &'static str {
    match kind {
        Kind::Sale | Kind::Capture => "Payment",
        Kind::Authorize => "Authorization",
        Kind::Void => "Cancellation",
        Kind::Refund | Kind::Credit => "Refund",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::Brand;
    use common::time::Timestamp;

    #[test]
    fn a_receipt_says_what_was_paid_and_to_whom() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let id = TransactionId::new(now);
        let facts = Facts {
            merchant: "Sh\u{f6}p\r\nTotal 0.00".to_owned(),
            time_zone: "America/New_York".parse().expect("a zone"),
            kind: Kind::Sale,
            amount: 2_101,
            fee: 81,
            currency: "USD".to_owned(),
            brand: Brand::Visa,
            masked: "XXXXXXXXXXXX4242".to_owned(),
            reference_id: Some("order\n9".to_owned()),
            created_at: now,
        };
        let (subject, text) = compose(id, &facts);
        assert_eq!(subject, "Payment 21.01 USD, Sh\u{f6}p  Total 0.00");
        let expected = [
            "Sh\u{f6}p  Total 0.00",
            "",
            "Payment         20.20 USD",
            "Fee             0.81 USD",
            "Total           21.01 USD",
            "Card            VISA ending in 4242",
            "Time            2027-01-15 03:00:00 (America/New_York)",
            &format!("Transaction     {id}"),
            "Reference       order 9",
            "",
        ];
        assert_eq!(text, expected.join("\r\n"));
    }
}
