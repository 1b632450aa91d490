//! The merchant.

use crate::Texts;

/// The lines below the merchant's name: its address and its number for tax.
pub fn seller(texts: &Texts, address: Option<&str>, tax_number: Option<&str>) -> Vec<String> {
    let address = address.into_iter().flat_map(str::lines).map(str::to_owned);
    address.chain(tax_number.map(|number| texts.tax_number(number))).collect()
}
