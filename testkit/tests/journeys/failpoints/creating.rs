//! Scenarios of objects created with an Idempotency-Key.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::Response;

use super::case::Case;
use super::table::Create;
use crate::support::ids;

impl Create {
    const fn path(self) -> &'static str {
        match self {
            Self::Customer => "/v1/customers",
            Self::Address => "/v1/addresses",
            Self::Plan => "/v1/plans",
            Self::Endpoint => "/v1/webhook_endpoints",
            Self::Link => "/v1/payment_links",
        }
    }

    fn body(self, customer: &str) -> Value {
        match self {
            Self::Customer => json!({"email": "grace@example.com"}),
            Self::Address => json!({"customerId": customer, "line1": "1 Main St", "country": "US"}),
            Self::Plan => json!({"name": "Gold", "amount": 2900, "currency": "USD", "interval": "month"}),
            Self::Endpoint => json!({"url": "https://hooks.example/in"}),
            Self::Link => json!({"amount": 1500, "currency": "USD"}),
        }
    }
}

impl Case {
    /// Sends the create request to this api, always with the same key.
    pub(super) async fn create(&self, create: Create, url: &str) -> Result<Response> {
        let api = self.at(url)?.api.header("idempotency-key", "k")?;
        api.post(create.path(), create.body(&self.subject)).await
    }

    /// Asserts that repeated requests return the first response, and that there is one object.
    pub(super) async fn is_created_once(&self, create: Create) -> Result<()> {
        let (one, two) = (self.create(create, &self.url).await?, self.create(create, &self.url).await?);
        assert_eq!((one.status, &one.bytes), (201, &two.bytes), "{}", one.body);
        assert_eq!(two.header("idempotent-replayed"), Some("true"));
        let list = match create {
            Create::Address => format!("/v1/addresses?customerId={}", self.subject),
            Create::Customer | Create::Plan | Create::Endpoint | Create::Link => create.path().to_owned(),
        };
        let mut listed = ids(&self.merchant.api.get(&list).await?);
        // The customer that existed before.
        listed.retain(|id| *id != self.subject);
        assert_eq!(listed, [one.body["id"].as_str().unwrap_or_default()]);
        Ok(())
    }
}
