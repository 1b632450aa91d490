//! What each invoice is made of. It is checked when it is written, by the rules of invoices, and again when it is read.

use serde::{Deserialize, Serialize};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef, Postgres};
use sqlx::types::Json;
use utoipa::ToSchema;

use crate::calendar::PaymentTerms;
use crate::error::{Error, Result};
use crate::invoices::{Bill, Item};
use crate::money::Currency;
use crate::schema;

/// The template of a recurring invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The currency of all its amounts.
    pub currency: Currency,
    /// How long after its issue an invoice falls due.
    pub payment_terms: PaymentTerms,
    /// What it is for.
    pub description: Option<String>,
    /// What is billed.
    pub bill: Bill,
}

impl Template {
    /// What is billed by rows: a template has no amount of its own.
    ///
    /// # Errors
    /// 422 naming the field at fault within `template`, as for an invoice.
    pub fn bill(items: Vec<Item>, amount_tax: Option<i64>, amount_discount: Option<i64>) -> Result<Bill> {
        Bill::new(None, Some(items), amount_tax, amount_discount).map_err(in_template)
    }
}

fn in_template(error: Error) -> Error {
    let Error::Invalid { param, message } = error else { return error };
    Error::invalid(format!("template.{param}"), message)
}

/// A template as the API answers it and as Postgres keeps it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InvoiceTemplate, description = "What each invoice is made of. Optional fields are there where they were sent.")]
pub(super) struct TemplateView<'a> {
    currency: Currency,
    /// What the due date of each invoice is reckoned from.
    #[schema(schema_with = terms)]
    payment_terms: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// In the order sent.
    items: &'a [Item],
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Added to the items.
    #[schema(schema_with = schema::amount)]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Taken off the items.
    #[schema(schema_with = schema::amount)]
    amount_discount: Option<i64>,
}

fn terms() -> schema::Field {
    schema::word(PaymentTerms::ALL.map(PaymentTerms::name)).into()
}

impl<'a> TemplateView<'a> {
    pub(super) fn new(template: &'a Template) -> Self {
        Self {
            currency: template.currency,
            payment_terms: template.payment_terms.name(),
            description: template.description.as_deref(),
            items: template.bill.items().rows(),
            amount_tax: template.bill.tax(),
            amount_discount: template.bill.discount(),
        }
    }
}

/// A template as it was kept.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    currency: String,
    payment_terms: String,
    description: Option<String>,
    items: Vec<Item>,
    amount_tax: Option<i64>,
    amount_discount: Option<i64>,
}

impl Kept {
    fn read(self) -> Result<Template, BoxDynError> {
        let terms = PaymentTerms::ALL.into_iter().find(|terms| terms.name() == self.payment_terms);
        Ok(Template {
            currency: self.currency.parse()?,
            payment_terms: terms.ok_or("terms of payment that are none")?,
            description: self.description,
            bill: Template::bill(self.items, self.amount_tax, self.amount_discount)?,
        })
    }
}

impl sqlx::Type<Postgres> for Template {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("jsonb")
    }
}

impl sqlx::Encode<'_, Postgres> for Template {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        sqlx::Encode::<Postgres>::encode_by_ref(&Json(TemplateView::new(self)), buf)
    }
}

impl sqlx::Decode<'_, Postgres> for Template {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let Json(kept) = <Json<Kept> as sqlx::Decode<Postgres>>::decode(value)?;
        kept.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(items: Vec<Item>, amount_tax: Option<i64>, amount_discount: Option<i64>) -> Result<Template> {
        Ok(Template {
            currency: "USD".parse().expect("a currency"),
            payment_terms: PaymentTerms::Net7,
            description: Some("Rent".into()),
            bill: Template::bill(items, amount_tax, amount_discount)?,
        })
    }

    fn row(quantity: i64, unit_amount: i64) -> Item {
        Item { description: "Hours".into(), quantity, unit_amount }
    }

    #[test]
    fn what_is_kept_reads_back_as_it_was() {
        let plain = Template { description: None, ..template(vec![row(1, 1)], None, None).expect("an amount") };
        let full = template(vec![row(2, 500), row(1, 0), row(2, 500)], Some(0), Some(7)).expect("an amount");
        for template in [plain, full] {
            let kept = serde_json::to_value(TemplateView::new(&template)).expect("JSON");
            assert!(!kept.to_string().contains("null"), "{kept}");
            let read = serde_json::from_value::<Kept>(kept).expect("what was kept").read();
            assert_eq!(read.expect("a template"), template);
        }
    }

    #[test]
    fn what_does_not_come_to_an_amount_names_its_field() {
        for (items, tax, discount, expected) in [
            (vec![], None, None, "template.items"),
            (vec![row(1, 0)], None, None, "template.items"),
            (vec![row(1, 5)], None, Some(5), "template.amountDiscount"),
            (vec![row(1, crate::money::MAX_AMOUNT)], Some(1), None, "template.amountTax"),
        ] {
            match template(items, tax, discount) {
                Err(Error::Invalid { param, .. }) => assert_eq!(param, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_was_spoilt_while_it_was_kept_is_no_template() {
        let kept = serde_json::to_value(TemplateView::new(&template(vec![row(1, 1)], None, None).expect("an amount")));
        let kept = kept.expect("JSON");
        for (field, value) in
            [("currency", "XXX".into()), ("paymentTerms", "net_8".into()), ("items", serde_json::json!([]))]
        {
            let mut spoilt = kept.clone();
            spoilt[field] = value;
            assert!(serde_json::from_value::<Kept>(spoilt).expect("its fields").read().is_err(), "{field}");
        }
    }
}
