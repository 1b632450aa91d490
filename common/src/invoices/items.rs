//! What an invoice bills for, and what that comes to.

use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use utoipa::ToSchema;

use crate::error::{Error, Result};
use crate::money::MAX_AMOUNT;
use crate::schema;

/// Rows at most.
pub const MAX_ROWS: usize = 100;

/// One row of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InvoiceItem, description = "One row of an invoice.")]
pub struct Item {
    /// What it is for.
    pub description: String,
    /// How many; 1 or more.
    #[schema(schema_with = quantity)]
    pub quantity: i64,
    /// Minor units of each; 0 or more.
    #[schema(schema_with = schema::amount)]
    pub unit_amount: i64,
}

fn quantity() -> schema::Field {
    schema::whole(1, MAX_AMOUNT).into()
}

/// The rows of an invoice, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Items(Json<Vec<Item>>);

impl Items {
    /// The rows.
    pub fn rows(&self) -> &[Item] {
        &self.0
    }
}

/// What is billed: an amount alone, or rows that come to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    amount: i64,
    items: Items,
    tax: Option<i64>,
    discount: Option<i64>,
}

impl Bill {
    /// Adds up rows, or takes the amount that was sent without any. All numbers are in the ranges of their fields.
    ///
    /// # Errors
    /// 422 naming the field at fault: `amountTax` or `amountDiscount` without rows, no row or more than 100, a total that is
    /// no amount, an `amount` that is missing or differs from the total.
    pub fn new(sent: Option<i64>, rows: Option<Vec<Item>>, tax: Option<i64>, discount: Option<i64>) -> Result<Self> {
        let Some(rows) = rows else {
            for (name, part) in [("amountTax", tax), ("amountDiscount", discount)] {
                if part.is_some() {
                    return Err(Error::invalid(name, format!("{name} needs items")));
                }
            }
            let amount = sent.ok_or_else(|| Error::invalid("amount", "amount is required where there are no items"))?;
            return Ok(Self { amount, items: Items::default(), tax, discount });
        };
        if rows.is_empty() || rows.len() > MAX_ROWS {
            return Err(Error::invalid("items", format!("items must have 1 to {MAX_ROWS} rows")));
        }
        let amount = total(&rows, tax.unwrap_or(0), discount.unwrap_or(0))?;
        if sent.is_some_and(|sent| sent != amount) {
            return Err(Error::invalid(
                "amount",
                format!("amount must be the {amount} that items come to, or left out"),
            ));
        }
        Ok(Self { amount, items: Items(Json(rows)), tax, discount })
    }

    /// Minor units in all.
    pub fn amount(&self) -> i64 {
        self.amount
    }

    /// The rows; none where the amount stands alone.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// Tax within the amount, where there are rows.
    pub fn tax(&self) -> Option<i64> {
        self.tax
    }

    /// What was taken off, where there are rows.
    pub fn discount(&self) -> Option<i64> {
        self.discount
    }
}

/// What rows, tax and discount come to. A product of two numbers fits twice their width, and sums stop at its end, which is
/// far beyond any amount: nothing overflows.
fn total(rows: &[Item], tax: i64, discount: i64) -> Result<i64> {
    let (tax, discount, max) = (i128::from(tax), i128::from(discount), i128::from(MAX_AMOUNT));
    let product = |row: &Item| i128::from(row.quantity) * i128::from(row.unit_amount);
    let sum = rows.iter().map(product).fold(0_i128, i128::saturating_add);
    let total = sum.saturating_add(tax).saturating_sub(discount);
    // The field at fault is the one that leads out of the range.
    let param = if total > max {
        if sum > max { "items" } else { "amountTax" }
    } else if total < 1 {
        if discount > 0 { "amountDiscount" } else { "items" }
    } else {
        return i64::try_from(total).map_err(|_| Error::internal("an amount that does not fit"));
    };
    Err(Error::invalid(param, format!("items, tax and discount must come to an amount from 1 to {MAX_AMOUNT}")))
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
            // Only what it all comes to has to be an amount.
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
        let turned: Vec<_> = rows.iter().rev().copied().collect();
        for rows in [rows, turned] {
            assert_eq!(amount(&rows, Some(5), Some(3)), Ok(expected));
        }
    }

    #[test]
    fn a_total_that_is_no_amount_names_what_leads_there() {
        let most = [(MAX_AMOUNT, MAX_AMOUNT); MAX_ROWS];
        for (rows, tax, discount, expected) in [
            (&[(1, 0)][..], None, None, "items"),
            (&[(1, 0)], Some(0), Some(0), "items"),
            (&[(1, 5)], None, Some(5), "amountDiscount"),
            (&[(1, 5)], Some(1), Some(MAX_AMOUNT), "amountDiscount"),
            (&[(1, MAX_AMOUNT)], Some(1), None, "amountTax"),
            (&[(2, MAX_AMOUNT)], None, None, "items"),
            (&[(2, MAX_AMOUNT)], None, Some(1), "items"),
            (&most, Some(MAX_AMOUNT), None, "items"),
            (&[(i64::MAX, i64::MAX); MAX_ROWS], Some(i64::MAX), None, "items"),
        ] {
            assert_eq!(amount(rows, tax, discount), Err(expected.to_owned()), "{tax:?} {discount:?}");
        }
    }

    #[test]
    fn an_amount_beside_rows_is_checked_and_alone_it_is_taken() {
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
