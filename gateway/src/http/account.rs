//! `account.php`, an addition to the contract: returns the calling account's settings, so that a caller can detect
//! unsuitable settings before it charges. Read-only; it never returns keys.

use serde::Serialize;

use super::call::Call;
use super::envelope::Reply;
use crate::amount::Amount;
use crate::failure::Result;

#[derive(Serialize)]
struct AccountView<'a> {
    code: &'static str,
    description: &'static str,
    username: &'a str,
    time_zone: &'a str,
    currencies: &'a [String],
    /// Basis points.
    convenience_fee_percent: i32,
    convenience_fee_fixed: Amount,
    three_ds: bool,
}

/// `account.php`: no codes beyond those of every operation.
pub(super) async fn show(call: Call) -> Result<Reply> {
    let account = &call.account;
    Ok(Reply::new(&AccountView {
        code: "00",
        description: "Success",
        username: &account.username,
        time_zone: account.time_zone.name(),
        currencies: &account.currencies,
        convenience_fee_percent: account.fee().percent,
        convenience_fee_fixed: Amount::from_minor(account.fee().fixed),
        three_ds: account.three_ds,
    }))
}
