//! The card gateway's own report of an account, read with the merchant API like any merchant does.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::Value;

use super::{
    access::Access,
    time::{DAY, date},
};
use crate::{Client, form};

/// A line of the report.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportLine {
    pub(super) id: String,
    pub(super) parent: String,
    /// `SALE`, `AUTHORIZE`, `CAPTURE`, `VOID`, `REFUND`.
    pub(super) kind: String,
    pub(super) success: bool,
    /// In minor units (hundredths).
    pub(super) total: i64,
    pub(super) currency: String,
    /// The reference that the caller gave to a capture, void or refund.
    pub(super) child_reference: String,
}

impl ReportLine {
    fn parse(line: &Value) -> Result<Self> {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            id: text("transaction_id"),
            parent: text("parent_transaction_id"),
            kind: text("transaction_type"),
            success: text("transaction_status") == "SUCCESS",
            total: hundredths(&text("total_amount")).with_context(|| format!("invalid total in {line}"))?,
            currency: text("currency"),
            child_reference: text("child_reference_id"),
        })
    }
}

fn hundredths(amount: &str) -> Option<i64> {
    let (whole, part) = amount.split_once('.')?;
    let part = if part.len() == 2 { part.parse::<i64>().ok()? } else { return None };
    Some(whole.parse::<i64>().ok()? * 100 + part)
}

/// The report of each shop that has a gateway account.
pub(super) async fn read(access: &Access<'_>) -> Result<BTreeMap<usize, Vec<ReportLine>>> {
    let gateway = Client::new(&access.gateways[0])?;
    let gateway = gateway.header("content-type", "application/x-www-form-urlencoded")?;
    let today = access.clock.now().div_euclid(DAY);
    let (first, last) = (date(today - 2), date(today + 2));
    let mut reports = BTreeMap::new();
    for (shop, shop_data) in access.shops.iter().enumerate() {
        let Some(gateway_account) = shop_data.gateway_account() else { continue };
        let (mut lines, mut page) = (Vec::new(), 1);
        loop {
            let number = page.to_string();
            let fields = [
                ("username", gateway_account.username.as_str()),
                ("api_key", gateway_account.api_key.as_str()),
                ("start_date", first.as_str()),
                ("end_date", last.as_str()),
                ("page_no", number.as_str()),
            ];
            let response = gateway.send(Method::POST, "/apis/report.php", Some(form(fields).into_bytes())).await?;
            let report = &response.body["response"];
            ensure!(report["code"] == "00", "cannot read the report of shop {shop}: {report}");
            for line in report["transactions"].as_array().context("the report has no transactions")? {
                lines.push(ReportLine::parse(line)?);
            }
            if page >= report["total_pages"].as_i64().unwrap_or(0) {
                break;
            }
            page += 1;
        }
        reports.insert(shop, lines);
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::hundredths;

    #[test]
    fn amounts_are_read_as_hundredths() {
        assert_eq!(hundredths("10000.02"), Some(1_000_002));
        assert_eq!(hundredths("0.50"), Some(50));
        for other in ["1", "1.5", "", "x.00"] {
            assert_eq!(hundredths(other), None, "{other}");
        }
    }
}
