//! Line items of an invoice and their total.

use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use utoipa::ToSchema;

use foundation::error::{Error, Result};
use foundation::money::{Currency, MAX_AMOUNT, Money};
use foundation::schema;
use providers::ProviderKind;

/// Maximum number of line items.
pub const MAX_ROWS: usize = 100;

/// A line item of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InvoiceItem, description = "A line item of an invoice.")]
pub struct Item {
    /// What is billed.
    pub description: String,
    /// How many are billed, 1 or more.
    #[schema(value_type = schema::PositiveAmount)]
    pub quantity: i64,
    /// The price of one, in the currency's minor unit; 0 or more.
    #[schema(value_type = schema::Amount)]
    pub unit_amount: i64,
}

/// The line items of an invoice, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Items(Json<Vec<Item>>);

impl Items {
    pub fn rows(&self) -> &[Item] {
        &self.0
    }

    /// The JSON of an SQL parameter that is an array.
    pub(super) fn to_json(&self) -> String {
        self.0.encode_to_string().unwrap_or_default()
    }
}

/// The amount to bill: either an amount alone, or line items with tax and discount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    amount: i64,
    items: Items,
    tax: Option<i64>,
    discount: Option<i64>,
}

impl Bill {
    /// Adds up the line items, or uses `sent` if there are none. Each number must already be in the range of its field.
    ///
    /// # Errors
    /// 422 with the invalid field: `amountTax` or `amountDiscount` without items, an empty list or more than 100 items,
    /// a total outside the valid range, an `amount` that is missing or differs from the total.
    pub fn new(sent: Option<i64>, rows: Option<Vec<Item>>, tax: Option<i64>, discount: Option<i64>) -> Result<Self> {
        let Some(rows) = rows else {
            for (name, part) in [("amountTax", tax), ("amountDiscount", discount)] {
                if part.is_some() {
                    return Err(Error::invalid(name, format!("{name} requires items")));
                }
            }
            let amount = sent.ok_or_else(|| Error::invalid("amount", "amount is required without items"))?;
            return Ok(Self { amount, items: Items::default(), tax, discount });
        };
        if rows.is_empty() || rows.len() > MAX_ROWS {
            return Err(Error::invalid("items", format!("items must have 1 to {MAX_ROWS} rows")));
        }
        let amount = total(&rows, tax.unwrap_or(0), discount.unwrap_or(0))?;
        if sent.is_some_and(|sent| sent != amount) {
            return Err(Error::invalid(
                "amount",
                format!("amount must be omitted or equal the total of the items ({amount})"),
            ));
        }
        Ok(Self { amount, items: Items(Json(rows)), tax, discount })
    }

    /// Checks that the provider can charge the total. Its parts need not be chargeable.
    ///
    /// # Errors
    /// 422 with the field that makes it another total: `amount`, `amountTax`, `amountDiscount` or `items`.
    pub fn require_step(&self, provider: ProviderKind, currency: Currency) -> Result<()> {
        let step = provider.step(currency);
        let is_off = |part: Option<i64>| part.is_some_and(|minor| minor % step != 0);
        let param = if self.items.rows().is_empty() {
            "amount"
        } else if is_off(self.tax) {
            "amountTax"
        } else if is_off(self.discount) {
            "amountDiscount"
        } else {
            "items"
        };
        provider.require_step(param, Money { minor: self.amount, currency })
    }

    /// The total, in minor units.
    pub fn amount(&self) -> i64 {
        self.amount
    }

    /// The line items; empty if the bill has an amount alone.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// The tax included in the amount, if the bill has line items.
    pub fn tax(&self) -> Option<i64> {
        self.tax
    }

    /// The discount subtracted from the amount, if the bill has line items.
    pub fn discount(&self) -> Option<i64> {
        self.discount
    }
}

/// Returns the total of rows, tax and discount. Nothing overflows: a product of two `i64` fits an `i128`, and sums
/// saturate, far beyond any valid amount.
fn total(rows: &[Item], tax: i64, discount: i64) -> Result<i64> {
    let (tax, discount, max) = (i128::from(tax), i128::from(discount), i128::from(MAX_AMOUNT));
    let product = |row: &Item| i128::from(row.quantity) * i128::from(row.unit_amount);
    let sum = rows.iter().map(product).fold(0_i128, i128::saturating_add);
    let total = sum.saturating_add(tax).saturating_sub(discount);
    // Report the field that takes the total out of the range.
    let param = if total > max {
        if sum > max { "items" } else { "amountTax" }
    } else if total < 1 {
        if discount > 0 { "amountDiscount" } else { "items" }
    } else {
        return i64::try_from(total).map_err(|_| Error::internal("the amount does not fit an i64"));
    };
    Err(Error::invalid(param, format!("items, tax and discount must add up to an amount from 1 to {MAX_AMOUNT}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(quantity: i64, unit_amount: i64) -> Item {
        Item { description: "Hours".into(), quantity, unit_amount }
    }

    fn amount(rows: &[(i64, i64)], tax: Option<i64>, discount: Option<i64>) -> Result<i64, String> {
        let rows = rows.iter().map(|(quantity, unit)| row(*quantity, *unit)).collect();
        Bill::new(None, Some(rows), tax, discount).map(|bill| bill.amount()).map_err(param)
    }

    fn param(error: Error) -> String {
        let Error::Invalid { param, .. } = &error else { panic!("{error:?}") };
        param.to_string()
    }

    #[test]
    fn rows_tax_and_discount_add_up() {
        for (rows, tax, discount, expected) in [
            (&[(1, 1)][..], None, None, 1),
            (&[(2, 500), (1, 0), (3, 7)], None, None, 1021),
            (&[(2, 500)], Some(82), None, 1082),
            (&[(2, 500)], None, Some(999), 1),
            (&[(2, 500)], Some(82), Some(1081), 1),
            (&[(1, 0)], Some(1), None, 1),
            (&[(2, 500)], Some(0), Some(0), 1000),
            (&[(1, MAX_AMOUNT)], None, None, MAX_AMOUNT),
            (&[(MAX_AMOUNT, 1)], None, None, MAX_AMOUNT),
            // Only the total must be in the range.
            (&[(1, MAX_AMOUNT), (1, MAX_AMOUNT)], None, Some(MAX_AMOUNT), MAX_AMOUNT),
            (&[(1, MAX_AMOUNT)], Some(7), Some(7), MAX_AMOUNT),
        ] {
            assert_eq!(amount(rows, tax, discount), Ok(expected), "{rows:?} {tax:?} {discount:?}");
        }
    }

    #[test]
    fn the_total_does_not_depend_on_the_order_of_rows() {
        let rows: Vec<_> = (1..=MAX_ROWS as i64).map(|n| (n, n * n % 97)).collect();
        let expected = rows.iter().map(|(quantity, unit)| quantity * unit).sum::<i64>() + 5 - 3;
        let reversed: Vec<_> = rows.iter().rev().copied().collect();
        for rows in [rows, reversed] {
            assert_eq!(amount(&rows, Some(5), Some(3)), Ok(expected));
        }
    }

    #[test]
    fn totals_out_of_range_name_the_responsible_field() {
        let largest = [(MAX_AMOUNT, MAX_AMOUNT); MAX_ROWS];
        for (rows, tax, discount, expected) in [
            (&[(1, 0)][..], None, None, "items"),
            (&[(1, 0)], Some(0), Some(0), "items"),
            (&[(1, 5)], None, Some(5), "amountDiscount"),
            (&[(1, 5)], Some(1), Some(MAX_AMOUNT), "amountDiscount"),
            (&[(1, MAX_AMOUNT)], Some(1), None, "amountTax"),
            (&[(2, MAX_AMOUNT)], None, None, "items"),
            (&[(2, MAX_AMOUNT)], None, Some(1), "items"),
            (&largest, Some(MAX_AMOUNT), None, "items"),
            (&[(i64::MAX, i64::MAX); MAX_ROWS], Some(i64::MAX), None, "items"),
        ] {
            assert_eq!(amount(rows, tax, discount), Err(expected.to_owned()), "{tax:?} {discount:?}");
        }
    }

    #[test]
    fn totals_that_the_provider_does_not_charge_name_the_responsible_field() {
        let check = |provider: ProviderKind, sent, rows: &[(i64, i64)], tax, discount| {
            let rows: Vec<_> = rows.iter().map(|(quantity, unit)| row(*quantity, *unit)).collect();
            let bill = Bill::new(sent, Some(rows).filter(|rows| !rows.is_empty()), tax, discount).expect("a total");
            bill.require_step(provider, "KWD".parse().expect("a currency")).map_err(param)
        };
        for (sent, rows, tax, discount, expected) in [
            (None, &[(1, 1234)][..], None, None, Err("items")),
            (Some(1234), &[], None, None, Err("amount")),
            (Some(1230), &[], None, None, Ok(())),
            // Only the total is charged.
            (None, &[(8, 125)], None, None, Ok(())),
            (None, &[(1, 1234)], Some(6), None, Ok(())),
            (None, &[(1, 1234)], None, Some(4), Ok(())),
            (None, &[(1, 1230)], Some(185), None, Err("amountTax")),
            (None, &[(1, 1230)], Some(180), Some(5), Err("amountDiscount")),
            (None, &[(3, 1)], Some(180), Some(0), Err("items")),
        ] {
            let found = check(ProviderKind::Stripe, sent, rows, tax, discount);
            assert_eq!(found, expected.map_err(str::to_owned), "{rows:?} {tax:?} {discount:?}");
            assert_eq!(check(ProviderKind::Mock, sent, rows, tax, discount), Ok(()));
        }
    }

    #[test]
    fn an_amount_must_equal_the_total_or_stand_alone() {
        let bill = |sent, rows, tax, discount| Bill::new(sent, rows, tax, discount).map_err(param);
        let rows = || Some(vec![row(2, 500)]);
        assert_eq!(bill(Some(1000), rows(), None, None).map(|bill| bill.amount()), Ok(1000));
        assert_eq!(bill(Some(999), rows(), None, None), Err("amount".into()));
        assert_eq!(bill(Some(1000), rows(), Some(1), None), Err("amount".into()));
        let alone = bill(Some(7), None, None, None).expect("an amount alone");
        assert_eq!((alone.amount(), alone.items().rows(), alone.tax()), (7, &[][..], None));
        assert_eq!(bill(None, None, None, None), Err("amount".into()));
        assert_eq!(bill(Some(7), None, Some(0), None), Err("amountTax".into()));
        assert_eq!(bill(Some(7), None, None, Some(0)), Err("amountDiscount".into()));
        assert_eq!(bill(Some(7), Some(vec![]), None, None), Err("items".into()));
        assert_eq!(bill(None, Some(vec![row(1, 1); MAX_ROWS]), None, None).map(|bill| bill.amount()), Ok(100));
        assert_eq!(bill(None, Some(vec![row(1, 1); MAX_ROWS + 1]), None, None), Err("items".into()));
    }
}
