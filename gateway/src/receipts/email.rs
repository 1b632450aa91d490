//! The content of a receipt. Of the card it knows only the brand and the last four digits.

use foundation::calendar::TimeZone;
use foundation::time::Timestamp;
use mail::one_line;
use sqlx::PgPool;

use crate::amount::Amount;
use crate::cards::Brand;
use crate::id::TransactionId;
use crate::local_time::format_time;
use crate::transactions::TransactionKind;

/// Maximum length of a name or a reference in characters.
const MAX: usize = 255;

/// The content of a receipt.
pub(super) struct ReceiptData {
    pub(super) merchant: String,
    pub(super) time_zone: TimeZone,
    pub(super) kind: TransactionKind,
    pub(super) amount: i64,
    pub(super) fee: i64,
    pub(super) currency: String,
    pub(super) brand: Brand,
    pub(super) masked: String,
    pub(super) reference_id: Option<String>,
    pub(super) created_at: Timestamp,
}

/// Subject and text.
pub(super) fn compose(id: TransactionId, data: &ReceiptData) -> (String, String) {
    let merchant = one_line(&data.merchant, MAX);
    let money = |minor| format!("{} {}", Amount::from_minor(minor), data.currency);
    let subject = format!("{} {}, {merchant}", heading(data.kind), money(data.amount));
    let zone = data.time_zone.name();
    let last_four = &data.masked[data.masked.len().saturating_sub(4)..];
    let mut lines = vec![(heading(data.kind), money(data.amount - data.fee))];
    if data.fee > 0 {
        lines.push(("Fee", money(data.fee)));
        lines.push(("Total", money(data.amount)));
    }
    lines.push(("Card", format!("{} ending in {last_four}", data.brand)));
    lines.push(("Time", format!("{} ({zone})", format_time(data.created_at, zone))));
    lines.push(("Transaction", id.to_string()));
    if let Some(reference) = &data.reference_id {
        lines.push(("Reference", one_line(reference, MAX)));
    }
    let lines: String = lines.iter().map(|(name, value)| format!("{name:<16}{value}\r\n")).collect();
    (subject, format!("{merchant}\r\n\r\n{lines}"))
}

const fn heading(kind: TransactionKind) -> &'static str {
    match kind {
        TransactionKind::Sale | TransactionKind::Capture => "Payment",
        TransactionKind::Authorize => "Authorization",
        TransactionKind::Void => "Cancellation",
        TransactionKind::Refund | TransactionKind::Credit => "Refund",
    }
}

pub(super) async fn receipt_data(db: &PgPool, id: TransactionId) -> Result<ReceiptData, sqlx::Error> {
    sqlx::query_as!(
        ReceiptData,
        r#"SELECT accounts.name AS merchant, time_zone AS "time_zone: TimeZone", kind AS "kind: TransactionKind", amount, fee, currency,
                  brand AS "brand: Brand", masked, reference_id, charge.created_at
           FROM gateway.transactions AS charge JOIN gateway.accounts ON accounts.id = charge.account_id
           WHERE charge.id = $1"#,
        id.uuid(),
    )
    .fetch_one(db)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_lists_amounts_card_and_merchant() {
        let now = Timestamp::from_millisecond(1_800_000_000_000).expect("in range");
        let id = TransactionId::new(now);
        let data = ReceiptData {
            merchant: "Sh\u{f6}p\r\nTotal 0.00".to_owned(),
            time_zone: "America/New_York".parse().expect("a zone"),
            kind: TransactionKind::Sale,
            amount: 2_101,
            fee: 81,
            currency: "USD".to_owned(),
            brand: Brand::Visa,
            masked: "XXXXXXXXXXXX4242".to_owned(),
            reference_id: Some("order\n9".to_owned()),
            created_at: now,
        };
        let (subject, text) = compose(id, &data);
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
