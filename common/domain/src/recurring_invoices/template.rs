//! The template of a recurring invoice. It is validated like an invoice when it is stored and again when it is read.

use serde::{Deserialize, Serialize};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef, Postgres};
use sqlx::types::Json;
use utoipa::ToSchema;

use crate::invoices::{Bill, Item};
use foundation::calendar::PaymentTerms;
use foundation::error::{Error, Result};
use foundation::money::Currency;
use foundation::schema;
use providers::ProviderKind;

/// The template of a recurring invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The currency of all amounts.
    pub currency: Currency,
    pub payment_terms: PaymentTerms,
    pub description: Option<String>,
    pub bill: Bill,
}

impl Template {
    /// Builds the bill from line items; a template cannot have an amount alone.
    ///
    /// # Errors
    /// 422 with the invalid field within `template`, as for an invoice.
    pub fn bill(items: Vec<Item>, amount_tax: Option<i64>, amount_discount: Option<i64>) -> Result<Bill> {
        Bill::new(None, Some(items), amount_tax, amount_discount).map_err(in_template)
    }

    /// Checks that the provider can charge the total of each invoice.
    ///
    /// # Errors
    /// 422 with the invalid field within `template`, as for an invoice.
    pub fn require_step(&self, provider: ProviderKind) -> Result<()> {
        self.bill.require_step(provider, self.currency).map_err(in_template)
    }
}

fn in_template(error: Error) -> Error {
    let Error::Invalid { param, message } = error else { return error };
    Error::invalid(format!("template.{param}"), message)
}

/// A template in the API and in Postgres.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InvoiceTemplate, description = "The content of each invoice. Optional fields are present if they were sent.")]
pub(super) struct TemplateView<'a> {
    currency: Currency,
    /// The terms from which the due date of each invoice is computed.
    #[schema(value_type = PaymentTerms)]
    payment_terms: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Shown to the customer on each invoice.
    description: Option<&'a str>,
    /// In the order sent.
    items: &'a [Item],
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Added to the items, in the currency's minor unit.
    #[schema(value_type = Option<schema::Amount>)]
    amount_tax: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Subtracted from the items, in the currency's minor unit.
    #[schema(value_type = Option<schema::Amount>)]
    amount_discount: Option<i64>,
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

/// A template as stored in Postgres.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredTemplate {
    currency: String,
    payment_terms: String,
    description: Option<String>,
    items: Vec<Item>,
    amount_tax: Option<i64>,
    amount_discount: Option<i64>,
}

impl StoredTemplate {
    fn parse(self) -> Result<Template, BoxDynError> {
        let terms = PaymentTerms::ALL.into_iter().find(|terms| terms.name() == self.payment_terms);
        Ok(Template {
            currency: self.currency.parse()?,
            payment_terms: terms.ok_or("unknown payment terms")?,
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
        let Json(stored) = <Json<StoredTemplate> as sqlx::Decode<Postgres>>::decode(value)?;
        stored.parse()
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
    fn templates_round_trip_through_json() {
        let plain = Template { description: None, ..template(vec![row(1, 1)], None, None).expect("an amount") };
        let full = template(vec![row(2, 500), row(1, 0), row(2, 500)], Some(0), Some(7)).expect("an amount");
        for template in [plain, full] {
            let stored = serde_json::to_value(TemplateView::new(&template)).expect("JSON");
            assert!(!stored.to_string().contains("null"), "{stored}");
            let parsed = serde_json::from_value::<StoredTemplate>(stored).expect("a stored template").parse();
            assert_eq!(parsed.expect("a template"), template);
        }
    }

    #[test]
    fn invalid_totals_are_rejected_by_field() {
        for (items, tax, discount, expected) in [
            (vec![], None, None, "template.items"),
            (vec![row(1, 0)], None, None, "template.items"),
            (vec![row(1, 5)], None, Some(5), "template.amountDiscount"),
            (vec![row(1, foundation::money::MAX_AMOUNT)], Some(1), None, "template.amountTax"),
        ] {
            match template(items, tax, discount) {
                Err(Error::Invalid { param, .. }) => assert_eq!(param, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn corrupt_stored_templates_are_rejected() {
        let valid = template(vec![row(1, 1)], None, None).expect("an amount");
        let stored = serde_json::to_value(TemplateView::new(&valid)).expect("JSON");
        for (field, value) in
            [("currency", "XXX".into()), ("paymentTerms", "net_8".into()), ("items", serde_json::json!([]))]
        {
            let mut corrupt = stored.clone();
            corrupt[field] = value;
            let parsed = serde_json::from_value::<StoredTemplate>(corrupt).expect("all fields").parse();
            assert!(parsed.is_err(), "{field}");
        }
    }
}
